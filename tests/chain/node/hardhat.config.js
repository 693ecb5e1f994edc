// Each transaction is mined at once, in a block of its own.
module.exports = { networks: { hardhat: { chainId: 31337, hardfork: "cancun" } } };
