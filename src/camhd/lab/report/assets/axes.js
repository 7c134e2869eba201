// Axes: ticks, grid, titles, names of rows.

/** The axes of a plot as one group. Across a picture (`bare`, or rows with names) there is no grid. */
function axes({ spec, x, y, left, top, inner, height }) {
  const [right, bottom] = [left + inner, top + height];
  const bare = Boolean(spec.y.names || spec.bare);
  const kind = bare ? "axis" : "grid";
  const group = draw("g", {});
  const across = ticks(x, Math.max(2, Math.floor(inner / 70)), spec.x.integers);
  tickTexts(across, spec.x).forEach((text, i) => {
    const at = x(across[i]);
    group.append(
      draw("line", { class: kind, x1: at, x2: at, y1: bare ? bottom : top, y2: bottom + 4 }),
      draw("text", { x: at, y: bottom + 18, "text-anchor": "middle" }, text),
    );
  });
  if (spec.y.names) group.append(...rowNames(spec.y.names, left, y));
  else {
    upTicks({ spec, y, height }).forEach(([value, text]) => {
      const at = y(value);
      group.append(
        draw("line", { class: kind, x1: bare ? left - 4 : left, x2: bare ? left : right, y1: at, y2: at }),
        draw("text", { x: left - 8, y: at + 4, "text-anchor": "end" }, text),
      );
    });
  }
  group.append(
    draw("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, spec.x.title),
    draw("path", { class: "axis", fill: "none", d: `M${left},${top}V${bottom}H${right}` }),
  );
  return group;
}

/** The ticks of the vertical axis: [value, text] each. */
function upTicks({ spec, y, height }) {
  const values = ticks(y, Math.max(3, Math.floor(height / 45)));
  const texts = tickTexts(values, spec.y);
  return values.map((value, i) => [value, texts[i]]);
}

/** Names of rows, the middle of long ones left out. */
function rowNames(names, left, y) {
  const room = Math.floor((left - 10) / 6.6);
  const half = Math.floor((room - 1) / 2);
  return names.map((name, i) => {
    const short = name.length > room ? `${name.slice(0, half)}…${name.slice(-half)}` : name;
    return draw("text", { x: left - 6, y: y(i + 0.5) + 4, "text-anchor": "end" }, short, draw("title", {}, name));
  });
}

/** How much room to the left some texts would like. */
const roomFor = (texts) => Math.max(58, 14 + 6.8 * Math.max(0, ...texts.map((text) => text.length)));
