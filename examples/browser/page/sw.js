// Keeps what was loaded, so that the page works without a network.

const FIRST = ["./", "index.html", "page.js", "style.css"]; // loaded before this program answers
const CACHE = "page";

self.addEventListener("install", (event) => {
  const stored = caches.open(CACHE).then((cache) => cache.addAll(FIRST));
  event.waitUntil(stored.then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  const isOwn = new URL(url).origin === self.location.origin && method === "GET";
  event.respondWith(isOwn ? answer(event, new URL(url)) : Response.error());
});

/** A file with its checksum for a query from the cache; others from the server, if it answers. */
async function answer(event, url) {
  const cache = await caches.open(CACHE);
  const isModel = /^\?[0-9a-f]{64}$/u.test(url.search);
  const found = await cache.match(url.href, { ignoreSearch: !isModel });
  if (found && isModel) return found;
  let response;
  try {
    response = await fetch(url.href, { cache: "no-cache" });
  } catch {
    return found ?? Response.error();
  }
  if (response.ok) {
    await cache.delete(url.href, { ignoreSearch: true }); // another version
    event.waitUntil(cache.put(url.href, response.clone()));
  }
  return response;
}
