// Plots that share their horizontal axis: what is zoomed or pointed at in one is in all.

class Link {
  constructor() {
    this.plots = new Set();
    this.zoomed = null;
    this.undo = button("Reset zoom", () => this.reset(), { class: "undo", hidden: true });
  }

  /** Room to the left that all of them leave, so that they line up. */
  left(width) {
    return Math.min(Math.max(...[...this.plots].map((plot) => plot.wanted)), width * 0.34);
  }

  /** Others of the same width that still leave another room are drawn again. */
  align({ left, width }) {
    for (const plot of this.plots) if (plot.width === width && plot.left !== left) plot.render();
  }

  zoom(domain) {
    this.zoomed = domain;
    this.plots.forEach((plot) => plot.render());
    this.undo.hidden = !(domain || [...this.plots].some((plot) => plot.zoomedY));
  }

  reset() {
    for (const plot of this.plots) plot.zoomedY = null;
    this.zoom(null);
  }

  /** Mark a place in all plots; null marks none. */
  point(x) {
    this.plots.forEach((plot) => plot.mark(x));
  }
}
