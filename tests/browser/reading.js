// What reading.py asks a page. Lists of faults are lists of sentences.
const SHAPES = ["rect", "circle", "ellipse", "path", "polygon"];
const pencil = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });

function visible(element) {
  return element.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true });
}

function shown(element) {
  const words = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 60);
  const id = element.id ? "#" + element.id : "";
  return `<${element.tagName.toLowerCase()}${id}> ${words}`.trim();
}

function colour(text) { // any colour that the browser understands, as [red, green, blue, opacity]
  pencil.clearRect(0, 0, 1, 1);
  pencil.fillStyle = text;
  pencil.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = pencil.getImageData(0, 0, 1, 1).data;
  return [red, green, blue, alpha / 255];
}

function over(top, bottom) {
  return [0, 1, 2].map((i) => top[i] * top[3] + bottom[i] * (1 - top[3])).concat(1);
}

function luminance(rgb) {
  const [red, green, blue] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one, two) {
  const [low, high] = [luminance(one), luminance(two)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function opacity(element) {
  let product = 1;
  for (let each = element; each; each = each.parentElement) product *= Number(getComputedStyle(each).opacity);
  return product;
}

function fill(element) { // what an element paints behind the text on it
  const style = getComputedStyle(element);
  if (!(element instanceof SVGElement) || element.tagName === "svg") return colour(style.backgroundColor);
  if (!SHAPES.includes(element.tagName) || style.fill === "none" || style.fill.startsWith("url")) return [0, 0, 0, 0];
  const [red, green, blue, alpha] = colour(style.fill);
  return [red, green, blue, alpha * Number(style.fillOpacity)];
}

function behind(element) { // nearest first
  if (!(element instanceof SVGElement)) {
    const found = [];
    for (let each = element; each; each = each.parentElement) found.push(each);
    return found;
  }
  element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
  const box = element.getBoundingClientRect();
  const stack = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return stack.slice(stack.indexOf(element) + 1);
}

function ground(element) {
  const paper = document.documentElement.style.colorScheme || getComputedStyle(document.documentElement).colorScheme;
  const dark = paper === "dark" || (paper.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches);
  const layers = behind(element).map((each) => {
    const [red, green, blue, alpha] = fill(each);
    return [red, green, blue, alpha * opacity(each)];
  });
  return layers.reduceRight((bottom, top) => over(top, bottom), dark ? [18, 18, 18, 1] : [255, 255, 255, 1]);
}

function texts() { // elements with text of their own
  const walker = document.createTreeWalker(document.body || document.documentElement, NodeFilter.SHOW_TEXT);
  const found = new Set();
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    const told = ["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "OPTION", "title", "desc", "style"].includes(parent.tagName);
    if (walker.currentNode.data.trim() && !told && visible(parent)) found.add(parent);
  }
  return [...found];
}

function faintText(least) {
  return texts().filter((element) => !element.closest(":disabled")).flatMap((element) => {
    const style = getComputedStyle(element);
    const [red, green, blue, alpha] = colour(element instanceof SVGElement ? style.fill : style.color);
    const below = ground(element);
    const ratio = contrast(over([red, green, blue, alpha * opacity(element)], below), below);
    return ratio < least ? [`contrast ${ratio.toFixed(2)} is below ${least}: ${shown(element)}`] : [];
  });
}

function unnamedPictures() {
  const decoration = (each) => each.closest('[aria-hidden="true"], [role="presentation"], [role="none"]');
  const named = (each) =>
    each.hasAttribute("alt") || each.getAttribute("aria-label") || each.getAttribute("title") ||
    each.getAttribute("aria-labelledby") || each.querySelector(":scope > title")?.textContent.trim() ||
    (each.tagName === "CANVAS" && each.textContent.trim());
  const pictures = [...document.querySelectorAll("img, svg, canvas, [role=img]")];
  return pictures.filter((each) => !each.parentElement?.closest("svg, [role=img]") && visible(each) && !decoration(each))
    .filter((each) => !named(each)).map((each) => `a picture has no words: ${shown(each)}`);
}

function controls() {
  const all = 'a[href], button, input:not([type="hidden"]), select, textarea, summary, [tabindex]:not([tabindex^="-"])';
  const leader = (each) => { // the arrows lead through a group of radio buttons, Tab comes to one of them
    if (each.type !== "radio" || !each.name) return true;
    const group = [...document.getElementsByName(each.name)].filter((other) => other.form === each.form);
    return each === (group.find((other) => other.checked) || group[0]);
  };
  return [...document.querySelectorAll(all)].filter((each) => visible(each) && !each.matches(":disabled") && leader(each));
}

function watchControls() {
  const start = document.createElement("span"); // Tab begins here, not where something was scrolled into view
  start.tabIndex = -1;
  document.body.prepend(start);
  start.focus();
  start.remove();
  getSelection().removeAllRanges();
  window.reached = new Set();
  return controls().length;
}

function noteFocus() { // false: the focus has left the page, or is where it was before
  const now = document.activeElement;
  const fresh = now && now !== document.body && !window.reached.has(now);
  if (fresh) window.reached.add(now);
  return Boolean(fresh);
}

function notReached() {
  return controls().filter((each) => !window.reached.has(each)).map((each) => `Tab never comes to ${shown(each)}`);
}

function tooWide() {
  const width = document.documentElement.clientWidth;
  const captions = [...document.querySelectorAll("caption")].filter((each) => visible(each) && each.getBoundingClientRect().right > width);
  if (captions.length) return captions.map((each) => `a sentence goes on beyond ${width} pixels: ${shown(each)}`);
  if (document.documentElement.scrollWidth <= width) return [];
  const cut = (each) => each.parentElement && (getComputedStyle(each.parentElement).overflowX !== "visible" || cut(each.parentElement));
  const guilty = [...document.body.querySelectorAll("*")].filter((each) => each.getBoundingClientRect().right > width + 1);
  const named = guilty.filter((each) => !cut(each)).slice(-3).map((each) => shown(each));
  return [`wider than ${width} pixels: ${document.documentElement.scrollWidth}: ${named.join("; ")}`];
}

function cutOff() { // on paper nothing can be scrolled
  const whole = (each) => each instanceof SVGElement || !each.clientWidth || each.scrollWidth <= each.clientWidth;
  const cut = [...document.querySelectorAll("*")].filter((each) => !whole(each));
  return cut.map((each) => `${each.scrollWidth} pixels stand in ${each.clientWidth}: ${shown(each)}`);
}
