// Print the bytecode of the contracts, as JSON by name.
const fs = require("node:fs");
const path = require("node:path");
const solc = require("solc");

const input = {
  language: "Solidity",
  sources: { contracts: { content: fs.readFileSync(path.join(__dirname, "contracts.sol"), "utf8") } },
  settings: { evmVersion: "cancun", outputSelection: { contracts: { "*": ["evm.bytecode.object"] } } },
};
const load = (name) => ({ contents: fs.readFileSync(path.join(__dirname, "node_modules", name), "utf8") });
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: load }));
if (output.errors) {
  console.error(output.errors.map((each) => each.formattedMessage).join("\n"));
  process.exit(1);
}
const contracts = Object.entries(output.contracts.contracts);
console.log(JSON.stringify(Object.fromEntries(contracts.map(([name, each]) => [name, each.evm.bytecode.object]))));
