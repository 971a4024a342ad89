// SPDX-License-Identifier: Apache-2.0

package kernelconfigs

// Explain fills in why symbols could not be had, from the tree's Kconfig files.
func Explain(miss []Missing, c Config, srcArch string, read func(string) ([]byte, error)) {}
