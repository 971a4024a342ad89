// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kernel

import (
	"context"
	"testing"
)

// TestKernelDocOfTheTree runs the tree's checker on files with and without
// complaints, with no build at all.
func TestKernelDocOfTheTree(t *testing.T) {
	s, tree := realStore(t)
	files := []string{"net/sunrpc/xprtrdma/svc_rdma_sendto.c", "fs/iomap/iter.c", "lib/rhashtable.c", "no/such/file.c", "MAINTAINERS"}
	for range 2 { // the second time from the cache
		doc, err := s.CheckKernelDoc(context.Background(), tree, nil, files)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%q", doc)
		if len(doc["fs/iomap/iter.c"]) == 0 || len(doc["net/sunrpc/xprtrdma/svc_rdma_sendto.c"]) != 0 {
			t.Errorf("got %q", doc)
		}
	}
}
