// What does not fit on the page, in words: an empty list is a page in order.
(() => {
  const out = [];
  for (const d of document.querySelectorAll("details")) d.open = true;
  const words = (e) => `${e.tagName.toLowerCase()} “${e.textContent.trim().slice(0, 40)}”`;
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) out.push(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);

  for (const svg of document.querySelectorAll("svg[role=img]")) {
    const box = svg.getBoundingClientRect();
    if (box.width < 100 || box.height < 60) out.push(`the chart ${words(svg.querySelector("title"))} is ${box.width} by ${box.height}`);
  }
  for (const figure of document.querySelectorAll("figure")) {
    const frame = figure.getBoundingClientRect();
    const boxes = [...figure.querySelectorAll("svg text")].map((e) => ({ e, box: e.getBoundingClientRect() })).filter((l) => l.box.width > 0);
    boxes.forEach((a, i) => {
      if (a.box.left < frame.left - 1 || a.box.right > frame.right + 1 || a.box.bottom > frame.bottom + 1)
        out.push(`${words(a.e)} sticks out of ${words(figure.querySelector("b"))}`);
      for (const b of boxes.slice(i + 1))
        if (a.box.left < b.box.right && b.box.left < a.box.right && a.box.top < b.box.bottom - 2 && b.box.top < a.box.bottom - 2)
          out.push(`${words(a.e)} lies on ${words(b.e)} in ${words(figure.querySelector("b"))}`);
    });
  }
  for (const cell of document.querySelectorAll("td, th, li, dd, p"))
    if (cell.clientWidth && cell.scrollWidth > cell.clientWidth + 1) out.push(`${words(cell)} is too wide for its place`);

  // Letters must be told from what is behind them: the contrast of WCAG, level AA.
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || e.closest("script, style, title, desc") || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const pair = [parse(e.closest("svg") ? style.fill : style.color), behind(e)].map(light).sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    const key = `${contrast.toFixed(2)} ${e.className.baseVal ?? e.className}`;
    if (contrast < 4.5 && !seen.has(key)) {
      seen.add(key);
      out.push(`${words(e)} has a contrast of ${contrast.toFixed(2)}`);
    }
  }
  return out;
})()
