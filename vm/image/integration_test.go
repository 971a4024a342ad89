// SPDX-License-Identifier: Apache-2.0

//go:build integration

package image

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestBuild(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	agent, err := BuildAgent(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("PATCHCHECK_CACHE")
	if dir == "" {
		dir = t.TempDir()
	}
	for _, layers := range [][]string{nil, {"rdma"}, {"fio"}} {
		start := time.Now()
		img, err := Build(ctx, Options{CacheDir: dir, AgentPath: agent, Layers: layers, Progress: func(s string) { t.Log(s) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: %s, %d bytes, %d compressed, %v: %v", layers, img.Path, img.Bytes, img.CompressedBytes, time.Since(start), img.Packages)
		const limit = 25 << 20
		if len(layers) == 0 && img.CompressedBytes > limit {
			t.Errorf("base image has %d bytes compressed, more than %d", img.CompressedBytes, limit)
		}
		again, err := Build(ctx, Options{CacheDir: dir, AgentPath: agent, Layers: layers})
		if err != nil {
			t.Fatal(err)
		}
		if again.Key != img.Key || again.Path != img.Path {
			t.Errorf("second build gave %s, the first %s", again.Key, img.Key)
		}
	}
}
