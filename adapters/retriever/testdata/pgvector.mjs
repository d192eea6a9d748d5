// A server of Postgres with pgvector for tests, in memory. Its argument is the folder of its packages; it says where it
// listens, and ends with its standard input.
const load = (name) => import(`${process.argv[2]}/${name}/dist/index.js`);
const [{ PGlite }, { PGLiteSocketServer }, { vector }] = await Promise.all(
	["pglite", "pglite-socket", "pglite-pgvector"].map(load));
const db = await PGlite.create({ extensions: { vector } });
const server = new PGLiteSocketServer({ db, host: "127.0.0.1", port: 0, maxConnections: 20 });
await server.start();
console.log(server.getServerConn());
process.stdin.on("end", () => process.exit(0)).resume();
