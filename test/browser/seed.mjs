// Fills the folder that it is given, for the tests to start from copies of it.
import { seed } from "../product.js";

await seed(process.argv[2]);
