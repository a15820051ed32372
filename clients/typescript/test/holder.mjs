// Holds the folder of a storage until it is killed.

import { FileStorage } from "../dist/file.js";

await new FileStorage(process.argv[2]).open({ stream: "orders", source: "", group: "" });
process.send("open");
setInterval(() => {}, 1000);
