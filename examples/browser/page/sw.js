// Keeps what was loaded, so that the page works without a network.

const FIRST = ["./", "index.html", "page.js", "style.css"]; // loaded before this program answers
const MODULES = "arrays|capitals|engine|folder|page|sentencepiece_model|sentences|subwords|text|translator|worker";
// of this page: other pages of the same server are left alone
const FILES = String.raw`index\.html|style\.css|(${MODULES})\.js|arrays\.txt|engine\.wasm|model/[^/]+`;
const OWN = new RegExp(`^(${FILES})?$`, "u");
const CACHE = "page";

self.addEventListener("install", (event) => {
  const stored = caches.open(CACHE).then((cache) =>
    Promise.all(FIRST.map((name) => load(event, cache, name))),
  );
  event.waitUntil(stored.then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  const [address] = url.href.split(/[?#]/u);
  const { scope } = self.registration;
  const isOwn = address.startsWith(scope) && OWN.test(address.slice(scope.length));
  if (isOwn && event.request.method === "GET") event.respondWith(answer(event, url));
});

/** A file with its checksum for a query from the cache; others from the server, if it answers. */
async function answer(event, url) {
  const cache = await caches.open(CACHE);
  const isModel = /^\?[0-9a-f]{64}$/u.test(url.search);
  const found = await cache.match(url.href, { ignoreSearch: !isModel });
  if (found && isModel && event.request.cache !== "reload") return found;
  try {
    const response = await load(event, cache, url.href);
    return response.status >= 500 && found ? found : response;
  } catch {
    return found ?? Response.error();
  }
}

/** A file from the server, which is stored. */
async function load(event, cache, address) {
  let response = await fetch(address, { cache: "no-cache" });
  // a browser opens no page from a response that was redirected
  if (response.redirected) response = new Response(response.body, response);
  if (response.ok) {
    event.waitUntil(store(cache, new URL(address, self.registration.scope).href, response.clone()));
  }
  return response;
}

/** Another version stays until this one is whole. */
async function store(cache, address, response) {
  await cache.put(address, response);
  const all = await cache.keys(address, { ignoreSearch: true });
  await Promise.all(all.filter(({ url }) => url !== address).map((one) => cache.delete(one)));
}
