// SPDX-License-Identifier: Apache-2.0

package vm

// TinyInit is for the tests outside the package.
var TinyInit = tinyInit
