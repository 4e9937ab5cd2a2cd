"use strict";
// Tables are sorted by a click on their heads, and bars tell their values. The page is complete without this.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  if (body.rows.length < 3) continue;
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, place, numeric) => {
    const cell = row.cells[place];
    if (!numeric) return cell.dataset.value === undefined ? cell.textContent.trim() : cell.dataset.value;
    return cell.dataset.value === undefined ? NaN : Number(cell.dataset.value);
  };
  const compare = (a, b, sign) => {
    const [x, y] = [Number(a), Number(b)];
    if (a === "" || b === "" || Number.isNaN(x) || Number.isNaN(y)) {
      if (typeof a === "number" || typeof b === "number") return Number.isNaN(x) - Number.isNaN(y);
      return sign * String(a).localeCompare(String(b), "en", { numeric: true });
    }
    return sign * (x - y);
  };
  heads.forEach((head, place) => {
    const kind = head.dataset.sort;
    if (!kind) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const numeric = kind === "number";
      const before = head.getAttribute("aria-sort");
      const rising = before ? before === "descending" : !numeric;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [key(row, place, numeric), row]);
      rows.sort(([a], [b]) => compare(a, b, rising ? 1 : -1));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
const tip = document.getElementById("tip");
document.addEventListener("pointermove", (event) => {
  const marked = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  tip.hidden = !marked;
  if (!marked) return;
  tip.textContent = marked.dataset.tip;
  const wide = document.documentElement.clientWidth;
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, wide - tip.offsetWidth - 8)) + "px";
  tip.style.top = event.clientY + 16 + "px";
});
