// SPDX-License-Identifier: Apache-2.0

package vm

// TinyInit is for the tests outside the package.
var TinyInit = tinyInit

// CutSSH drops the connection to PID 1, as our death would.
func (g *Guest) CutSSH() { g.conns[chanSSH].Close() }
