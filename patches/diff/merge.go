// SPDX-License-Identifier: Apache-2.0

package diff

func (a *applier) threeway(f *File, fr *FileResult, old []byte, out *outcome) bool { return false }
