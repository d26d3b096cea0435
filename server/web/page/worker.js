// The worker reads one stream for all pages, because a browser allows only six connections to a server.
import { apply, follow, newState, snapshot } from "./state.js";

const state = newState();
const pages = new Set();

onconnect = (e) => {
  const [page] = e.ports;
  pages.add(page);
  page.onmessage = () => pages.delete(page); // the page closes
  page.postMessage(snapshot(state));
};

follow((piece, text) => {
  for (const page of pages) page.postMessage(text ?? piece); // copying a text takes less time than copying its objects
  apply(state, piece);
});
