"""The laboratory: models and measurements. `import camhd` never imports it."""
