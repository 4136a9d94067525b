// Fills a folder with the demonstration data; test files start from copies of it.
import { seed } from "../product.js";

await seed(process.argv[2]);
