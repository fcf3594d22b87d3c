// Charts over time, with uPlot: lines, a promise as a dashed step, and the colours of the page in light and dark.
const Charts = (() => {
  const charts = new Map();
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function duration(seconds) {
    if (seconds < 120) return `${+seconds.toPrecision(3)} s`;
    if (seconds < 7200) return `${+(seconds / 60).toPrecision(3)} min`;
    if (seconds < 172800) return `${+(seconds / 3600).toPrecision(3)} h`;
    return `${+(seconds / 86400).toPrecision(3)} d`;
  }

  const number = value => value === null || value === undefined ? "–" : String(+value.toPrecision(3));

  function line(one) {
    const stroke = colour(one.colour);
    return {
      label: one.label, stroke, width: 2, dash: one.promise ? [6, 4] : undefined, spanGaps: true,
      paths: one.promise ? uPlot.paths.stepped({ align: 1 }) : undefined,
      points: { show: one.points === true, size: 5, stroke, fill: stroke }, value: (chart, value) => number(value),
    };
  }

  function options(title, lines, range, width) {
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    return {
      title, width, height: 240, cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { range: range || ((chart, low, high) => [0, high > 0 ? 1.1 * high : 1]) } },
      series: [{ label: "time", value: (chart, value) => value === null ? "–" : duration(value) }, ...lines.map(line)],
      axes: [{ ...axis, values: (chart, values) => values.map(duration) }, { ...axis, size: 56 }],
    };
  }

  function draw(id, title, lines, data, range) {
    const place = document.getElementById(id);
    const known = charts.get(id);
    if (known) {
      known.data = data;
      known.chart.setData(data);
      tell(known);
      return;
    }
    const width = Math.max(240, place.clientWidth);
    const made = { place, title, lines, data, range, chart: new uPlot(options(title, lines, range, width), data, place) };
    charts.set(id, made);
    tell(made);
    new ResizeObserver(() => made.chart.setSize({ width: Math.max(240, place.clientWidth), height: 240 })).observe(place);
  }

  function tell(made) {  // the newest values, for those who do not see the chart
    const [at, ...columns] = made.data, last = at.length - 1;
    const values = last < 0 ? [] : made.lines.map((one, place) => `${one.label} ${number(columns[place][last])}`);
    const newest = values.length ? `, at ${duration(at[last])}: ${values.join(", ")}` : ", nothing yet";
    const canvas = made.place.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${made.title} over time${newest}`);
  }

  function again(wide) {  // with the colours of now, and as wide as their places, if nothing else is asked for
    for (const made of charts.values()) {
      made.chart.destroy();
      const width = wide || Math.max(240, made.place.clientWidth);
      made.chart = new uPlot(options(made.title, made.lines, made.range, width), made.data, made.place);
      tell(made);
    }
  }

  return { draw, again, duration, number, colour };
})();
