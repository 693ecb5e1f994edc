// Run the chain's node from any directory; Hardhat itself wants to be started in its project's.
process.chdir(__dirname);
process.argv.splice(2, Infinity, "node", "--hostname", "127.0.0.1", "--port", "0");
require("hardhat/internal/cli/bootstrap");
