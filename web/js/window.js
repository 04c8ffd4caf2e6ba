// Of many rows of one height only those in view, and a few around them, are elements.
import { style } from "./dom.js";

const AROUND = 3,
  UNSEEN = 700; // pixels in view, before anybody has measured it

// scroller: what scrolls; padded: what holds the rows and stands for the others by its padding; rows(), height():
// how many, and pixels of one with what lies between; draw(from, to). Gives {update, reveal(row)}.
export function makeWindow({ scroller, padded, rows, height, draw }) {
  let from = 0,
    to = 0,
    top = 0,
    seen = 0;
  function place() {
    const all = rows(),
      one = height();
    const first = Math.max(0, Math.min(all, Math.floor(top / one)) - AROUND);
    const last = Math.min(all, Math.ceil((top + (seen || UNSEEN)) / one) + AROUND);
    const moved = first !== from || last !== to;
    [from, to] = [first, Math.max(first, last)];
    style(padded, "--before", `${from * one}px`);
    style(padded, "--after", `${(all - to) * one}px`);
    return moved;
  }
  const update = () => (place(), draw(from, to));
  scroller.addEventListener("scroll", () => {
    top = scroller.scrollTop;
    if (place()) draw(from, to);
  });
  new ResizeObserver(() => {
    seen = scroller.clientHeight;
    top = scroller.scrollTop;
    if (seen) update();
  }).observe(scroller);
  return {
    update,
    // From the first row again: what is shown is something else.
    begin() {
      scroller.scrollTop = top = 0;
      update();
    },
    // Scrolls so far that the row is in view, and draws it.
    reveal(row) {
      const one = height();
      if (row * one < top) top = row * one;
      else if ((row + 1) * one > top + seen) top = (row + 1) * one - seen;
      else return;
      update(); // so that there is something to scroll to
      scroller.scrollTop = top;
      top = scroller.scrollTop;
      update();
    },
  };
}
