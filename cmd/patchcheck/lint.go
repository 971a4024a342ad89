// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

func (a *app) lintCmd() *cobra.Command    { return &cobra.Command{Use: "lint", Hidden: true} }
func (a *app) explainCmd() *cobra.Command { return &cobra.Command{Use: "explain", Hidden: true} }
