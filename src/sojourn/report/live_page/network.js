// The network as a picture: the server, and every client with the tasks that it holds; many clients become small cells.
const Network = (() => {
  const canvas = document.getElementById("network"), spot = document.getElementById("spot");
  const GAP = 6, LABEL = 20, NARROW = 560;  // on a narrow page the server stands above its clients
  let about = null, now = null, cells = [], left = 176, narrow = false;

  function sizes(width) {  // of a cell, so that the picture keeps a readable height
    const many = about.count, room = width - left - 24;
    if (!about.group || !now.clients) return null;
    if (many <= 16) return { w: Math.min(150, narrow ? (room - GAP) / 2 : room), h: 46, kind: "named" };
    if (many <= 120) return { w: 44, h: 26, kind: "dots" };
    let side = 20;
    while (side > 6 && Math.ceil(many / Math.floor(room / side)) * side > 460) side -= 1;
    return { w: side - 2, h: side - 2, kind: "colour" };
  }

  function layout(width) {
    const size = sizes(width), gap = size && size.kind === "colour" ? 2 : GAP, room = width - left - 24;
    const blocks = [];
    let top = narrow ? 48 : 4;
    const members = about.groups.map(() => []);
    if (size) about.group.forEach((group, client) => members[group].push(client));
    about.groups.forEach((name, group) => {
      const block = { name, group, top, members: members[group], bottom: top + LABEL };
      if (size) {
        const columns = Math.max(1, Math.floor((room + gap) / (size.w + gap)));
        block.columns = columns;
        block.bottom += Math.ceil(block.members.length / columns) * (size.h + gap);
      } else block.bottom += 16;
      top = block.bottom + 10;
      blocks.push(block);
    });
    return { size, gap, blocks, height: Math.max(120, top) };
  }

  function draw() {
    if (!about || !now) return;
    const width = Math.max(300, canvas.parentElement.clientWidth), scale = window.devicePixelRatio || 1;
    narrow = width < NARROW;
    left = narrow ? 26 : 176;
    const plan = layout(width);
    canvas.width = width * scale;
    canvas.height = plan.height * scale;
    canvas.style.height = `${plan.height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "13px system-ui, sans-serif";
    pen.textBaseline = "middle";
    cells = [];
    const server = narrow ? { x: 4, y: 4, w: width - 8, h: 32 }
      : { x: 4, y: Math.min(plan.height / 2 - 34, 260), w: left - 48, h: 68 };
    for (const block of plan.blocks) link(pen, server, block);
    drawServer(pen, server);
    for (const block of plan.blocks) drawBlock(pen, plan, block, width);
  }

  const known = () => now.flying !== null;  // who holds what

  function flying(group) { return known() ? now.groups.serving[group] + now.groups.waiting[group] : 0; }

  const fits = (pen, text, room) => text.length <= room && pen.measureText(text).width <= room;

  function cut(pen, text, room) {  // a text that is too long for its room ends in an ellipsis
    if (fits(pen, text, room)) return text;
    let end = Math.max(0, Math.min(text.length, Math.floor(room)));
    while (end > 0 && !fits(pen, `${text.slice(0, end)}…`, room)) end -= 1;
    return `${text.slice(0, end).trimEnd()}…`;
  }

  function link(pen, server, block) {
    const many = flying(block.group), all = Math.max(1, now.flying);
    pen.strokeStyle = Charts.colour(many ? "--series-1" : "--line");
    pen.lineWidth = many ? 1 + 7 * many / all : 1;
    pen.beginPath();
    const y = block.top + LABEL / 2, x = server.x + server.w;
    if (narrow) {
      pen.moveTo(12, server.y + server.h);
      pen.lineTo(12, y);
      pen.lineTo(left - 4, y);
    } else {
      pen.moveTo(x, server.y + server.h / 2);
      pen.bezierCurveTo(x + 25, server.y + server.h / 2, left - 30, y, left - 6, y);
    }
    pen.stroke();
  }

  function drawServer(pen, server) {
    box(pen, server.x, server.y, server.w, server.h, Charts.colour("--raised"), Charts.colour("--quiet"));
    pen.fillStyle = Charts.colour("--text");
    pen.textAlign = "center";
    const middle = server.x + server.w / 2;
    const out = known() ? [`${now.flying} tasks out`] : [];
    if (known() && now.concurrency !== null) out.unshift(`${now.flying} of ${now.concurrency} tasks out`);
    const words = ["server", `${now.updates.toLocaleString("en")} updates`];
    if (known()) words.push(out.find(one => fits(pen, one, server.w - 8)) || out[0]);
    if (narrow) pen.fillText(cut(pen, words.join(", "), server.w - 8), middle, server.y + server.h / 2);
    else words.forEach((said, line) => pen.fillText(cut(pen, said, server.w - 8), middle, server.y + 16 + 19 * line));
    pen.textAlign = "left";
  }

  function drawBlock(pen, plan, block, width) {
    const groups = now.groups, group = block.group;
    pen.fillStyle = Charts.colour("--text");
    const there = groups.present[group], all = groups.clients[group];
    const clients = `: ${there === all ? all : `${there} of ${all}`} clients`, room = width - left - 8;
    const tasks = known() ? `, ${groups.serving[group]} in service, ${groups.waiting[group]} waiting or on the way` : "";
    const rest = fits(pen, block.name + clients + tasks, room) ? clients + tasks : clients;  // the table has the rest
    pen.fillText(cut(pen, block.name, room - pen.measureText(rest).width) + rest, left, block.top + LABEL / 2);
    if (!plan.size) return known() && drawShare(pen, block, width);
    block.members.forEach((client, place) => {
      const x = left + place % block.columns * (plan.size.w + plan.gap);
      const y = block.top + LABEL + Math.floor(place / block.columns) * (plan.size.h + plan.gap);
      cells.push({ x, y, w: plan.size.w, h: plan.size.h, client });
      drawClient(pen, plan.size, x, y, client);
    });
  }

  function drawShare(pen, block, width) {  // too many clients to draw: the part of a group that is busy
    const groups = now.groups, all = Math.max(1, groups.clients[block.group]), room = width - left - 24;
    const y = block.top + LABEL;
    box(pen, left, y, room, 12, Charts.colour("--ground"), Charts.colour("--quiet"));
    pen.fillStyle = Charts.colour("--series-1");
    pen.fillRect(left, y, room * Math.min(1, groups.serving[block.group] / all), 12);
  }

  function drawClient(pen, size, x, y, client) {
    const held = now.clients.held[client], serving = now.clients.serving[client], there = now.clients.present[client];
    const waiting = held - serving, line = Charts.colour("--quiet");
    pen.setLineDash(there ? [] : [3, 3]);
    if (size.kind === "colour") {
      const fill = waiting ? "--series-4" : serving ? "--series-1" : "--ground";
      pen.globalAlpha = waiting ? Math.min(1, 0.55 + 0.15 * Math.log2(waiting + 1)) : there || held ? 1 : 0.35;
      box(pen, x, y, size.w, size.h, Charts.colour(fill), line, 2);
      pen.globalAlpha = 1;
      pen.setLineDash([]);
      return;
    }
    box(pen, x, y, size.w, size.h, Charts.colour("--ground"), line);
    pen.setLineDash([]);
    const named = size.kind === "named", middle = y + (named ? 32 : size.h / 2), most = named ? 9 : 3;
    if (named) {
      pen.fillStyle = Charts.colour(there ? "--text" : "--quiet");
      pen.fillText(cut(pen, about.clients[client], size.w - 16), x + 8, y + 14);
    }
    for (let task = 0; task < Math.min(held, most); task += 1) {
      pen.fillStyle = Charts.colour(task < serving ? "--series-1" : "--series-4");
      pen.beginPath();
      pen.arc(x + 12 + task * 12, middle, 4.5, 0, 7);
      pen.fill();
    }
    if (held > most) {
      pen.fillStyle = Charts.colour("--text");
      pen.fillText(`+${held - most}`, x + 8 + most * 12, middle, size.w - most * 12 - 8);
    }
  }

  function box(pen, x, y, w, h, fill, stroke, round = 5) {
    pen.beginPath();
    pen.roundRect(x + .5, y + .5, w - 1, h - 1, round);
    pen.fillStyle = fill;
    pen.fill();
    pen.strokeStyle = stroke;
    pen.lineWidth = 1;
    pen.stroke();
  }

  canvas.addEventListener("mousemove", event => {
    const place = canvas.getBoundingClientRect(), x = event.clientX - place.left, y = event.clientY - place.top;
    const found = cells.find(one => x >= one.x && x <= one.x + one.w && y >= one.y && y <= one.y + one.h);
    spot.textContent = found && now.clients ? `${about.clients[found.client]}: ${now.clients.held[found.client]} tasks` : "";
  });
  new ResizeObserver(() => draw()).observe(canvas.parentElement);

  function show(newAbout, newNow) {
    about = newAbout;
    now = newNow;
    const waiting = now.groups.waiting.reduce((sum, one) => sum + one, 0);
    const tasks = known() ? `; ${now.flying} tasks are out, ${waiting} of them wait or are on the way` : "";
    canvas.setAttribute("aria-label", `The network: a server and ${about.count} clients, of which ${now.present} are ` +
      `there${tasks}. The tables below have the numbers of each group${now.clients ? " and client" : ""}.`);
    draw();
  }

  return { show, again: draw };
})();
