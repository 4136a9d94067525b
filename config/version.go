package config

// Version is the version of the programs in this source tree, except svc-runner, which has its own.
const Version = "0.39.0"
