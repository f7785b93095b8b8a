// Keeps what was loaded, so that the page works without a network. The build writes the list.

const PAGE = /* the build */ { version: "", files: [] };
const CACHE = `page ${PAGE.version}`;
const MODELS = "models";

self.addEventListener("install", (event) => {
  const files = PAGE.files.map((name) => new Request(name, { cache: "no-cache" }));
  const stored = caches.open(CACHE).then((cache) => cache.addAll(files));
  event.waitUntil(stored.then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = (names) => names.filter((name) => name !== CACHE && name !== MODELS);
  const removed = caches
    .keys()
    .then((names) => Promise.all(old(names).map((name) => caches.delete(name))));
  event.waitUntil(removed.then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (url.origin !== self.location.origin || event.request.method !== "GET") {
    event.respondWith(Response.error());
  } else if (url.pathname.endsWith("/config.json")) {
    event.respondWith(newestConfig(event.request, url));
  } else {
    event.respondWith(kept(event, url));
  }
});

/** config.json of the server; without a network, the last one. */
async function newestConfig(request, url) {
  const cache = await caches.open(MODELS);
  let response;
  try {
    response = await fetch(request, { cache: "no-cache" });
  } catch {
    return (await cache.match(url.href)) ?? Response.error();
  }
  if (response.ok) await cache.put(url.href, response.clone());
  return response;
}

/** A file of the page or, with its checksum for a query, of a model: from the cache if there. */
async function kept(event, url) {
  const isModel = /^\?[0-9a-f]{64}$/u.test(url.search);
  const cache = await caches.open(isModel ? MODELS : CACHE);
  const found = await cache.match(isModel ? url.href : url.origin + url.pathname);
  if (found) return found;
  const response = await fetch(event.request);
  if (!isModel || !response.ok) return response;
  for (const { url: address } of await cache.keys()) {
    const other = new URL(address); // perhaps another version of the file
    if (other.search && other.pathname === url.pathname) await cache.delete(address);
  }
  event.waitUntil(cache.put(url.href, response.clone()));
  return response;
}
