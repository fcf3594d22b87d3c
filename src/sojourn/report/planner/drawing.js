// Numbers, tables and bars. Whatever comes from a fleet is put in as text, never as HTML.
const Drawing = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const number = (value, digits = 4) => {
    if (value === null || value === undefined) return "–";
    const near = Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(digits));
    return near.toLocaleString("en", { maximumSignificantDigits: Math.abs(value) >= 1000 ? 21 : digits });
  };
  const percent = value => `${number(100 * value, 3)}%`;

  function duration(seconds) {
    for (const [unit, size] of [["days", 86400], ["h", 3600], ["min", 60]]) {
      if (seconds >= 2 * size) return `${Number((seconds / size).toPrecision(3))} ${unit}`;
    }
    return `${Number(seconds.toPrecision(3))} s`;
  }

  function element(name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function fill(table, head, rows, caption) {
    const top = document.createElement("thead"), first = top.insertRow(), body = document.createElement("tbody");
    head.forEach((name, place) => {
      const cell = element("th", name, place ? "number" : "");
      cell.scope = "col";
      first.append(cell);
    });
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((value, place) => line.append(element("td", value, place ? "number" : "")));
    }
    table.replaceChildren(element("caption", caption), top, body);
  }

  function part(drawing, name, values, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    drawing.append(made);
    return made;
  }

  const pen = document.createElement("canvas").getContext("2d");
  const wide = (text, size) => {  // how wide a text is drawn, in pixels
    pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
    return pen.measureText(text).width;
  };
  const short = (text, room, size) => {  // cut at its end, where it is too long
    const letters = [...text];
    let most = letters.length;
    while (most > 1 && wide(`${letters.slice(0, most).join("")}…`, size) > room) most -= 1;
    return wide(text, size) <= room ? text : `${letters.slice(0, most).join("")}…`;
  };

  // Each group has its name on a line, and two bars below it, one under the other: yours and recommended.
  function bars(title, names, yours, recommended, shown) {
    const figure = element("figure"), drawing = document.createElementNS(SVG, "svg");
    const width = 360, high = 52, height = names.length * high, texts = [...yours, ...recommended].map(shown);
    const room = width - 8 - Math.max(...texts.map(text => wide(text, 12)));
    const most = Math.max(...yours, ...recommended) || 1;
    drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    drawing.setAttribute("class", "bars");
    drawing.setAttribute("role", "img");
    const said = names.slice(0, 6).map((name, one) => `${name}: ${shown(yours[one])}, recommended ${shown(recommended[one])}`);
    const more = names.length > 6 ? "; and more, in the table below" : "";
    drawing.setAttribute("aria-label", `${title}. ${said.join("; ")}${more}.`);
    names.forEach((name, place) => {
      const y = place * high;
      part(drawing, "text", { x: 0, y: y + 14, class: "name" }, short(name, width, 13));
      [["yours", yours], ["recommended", recommended]].forEach(([kind, values], line) => {
        const long = room * values[place] / most, top = y + 20 + line * 13;
        part(drawing, "rect", { x: 0, y: top, width: Math.max(long, 1), height: 11, rx: 2, class: kind });
        part(drawing, "text", { x: long + 5, y: top + 10, class: "value" }, shown(values[place]));
      });
    });
    const caption = element("figcaption", title);
    for (const kind of ["yours", "recommended"]) {
      const entry = element("span", "", "entry");
      entry.append(element("span", "", `key ${kind}`), kind);
      caption.append(" ", entry);
    }
    figure.append(caption, drawing);
    return figure;
  }

  return { number, percent, duration, element, fill, bars };
})();
