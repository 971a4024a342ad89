// SPDX-License-Identifier: Apache-2.0

// Package image owns the guest's root file system: an initramfs made of a few
// programs of Debian packages, the libraries that these need, a handful of
// settings, and our agent as /init. It is built as anybody, without touching
// the host's system, and cached by content.
//
// It does not boot anything; package vm does.
package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
	"patchcheck/vm/initramfs"
)

// AgentEnv names a guest agent to use instead of the one beside patchcheck.
const AgentEnv = "PATCHCHECK_GUEST"

// AgentName is the file name of the guest agent's program.
const AgentName = "patchcheck-guest"

// section is the cache's folder for images and their layers.
const section = "images"

// format is raised when the way an image is put together changes.
const format = 1

// Options say what an image holds.
type Options struct {
	Cache     *cache.Cache // nil: the default cache, or CacheDir's
	CacheDir  string       // "" means cache.DefaultRoot
	Layers    []string     // beyond the base: "rdma", "fio"
	AgentPath string       // "" means FindAgent
	Refresh   bool         // look for newer packages even if the layers are cached
	Progress  func(string) // told what is being done, in a line; may be nil
}

// Package is a Debian package of which the image holds at least one file.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Image is a guest image in the cache.
type Image struct {
	Path            string    `json:"path"` // for QEMU's -initrd, before the keys of a run
	Key             string    `json:"key"`  // changes with the content
	Layers          []string  `json:"layers"`
	Packages        []Package `json:"packages"`
	Agent           string    `json:"agent"`            // SHA-256 of the agent
	Bytes           int64     `json:"bytes"`            // of Path
	CompressedBytes int64     `json:"compressed_bytes"` // with gzip, for comparison
}

// NoAgentError means that the guest agent's program was not found.
type NoAgentError struct {
	Tried []string
	Err   error
}

func (e *NoAgentError) Error() string {
	s := "cannot find the guest agent " + AgentName
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if len(e.Tried) > 0 {
		s += fmt.Sprintf(" (looked at %s)", e.Tried[0])
		for _, t := range e.Tried[1:] {
			s = s[:len(s)-1] + ", " + t + ")"
		}
	}
	return s + "; build it with `CGO_ENABLED=0 go build ./cmd/patchcheck-guest` beside patchcheck, or set " + AgentEnv + " to its path"
}

func (e *NoAgentError) Unwrap() error { return e.Err }

// FindAgent returns the path of the guest agent's program: $PATCHCHECK_GUEST,
// else the file beside the running program.
func FindAgent() (string, error) {
	if p := os.Getenv(AgentEnv); p != "" {
		if err := checkAgent(p); err != nil {
			return "", &NoAgentError{Err: fmt.Errorf("%s: %w", AgentEnv, err)}
		}
		return filepath.Abs(p)
	}
	self, err := os.Executable()
	if err != nil {
		return "", &NoAgentError{Err: err}
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	p := filepath.Join(filepath.Dir(self), AgentName)
	if err := checkAgent(p); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return "", &NoAgentError{Tried: []string{p}, Err: err}
	}
	return p, nil
}

// checkAgent refuses what cannot be PID 1 of a guest that has no libraries of
// its own yet.
func checkAgent(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		var format *elf.FormatError
		if errors.As(err, &format) || errors.Is(err, io.EOF) {
			return fmt.Errorf("%s is no ELF program", path)
		}
		return err
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("%s is for %v, guests are x86-64", path, f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is dynamically linked; build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}

// Build returns the image with these options, from the cache if it is there.
// A cached image needs no network and no apt.
func Build(ctx context.Context, opt Options) (Image, error) {
	if opt.Progress == nil {
		opt.Progress = func(string) {}
	}
	c := opt.Cache
	if c == nil {
		var err error
		if c, err = cache.Open(opt.CacheDir); err != nil {
			return Image{}, err
		}
	}
	recipes := []recipe{base}
	for _, name := range opt.Layers {
		r, ok := extra[name]
		if !ok {
			return Image{}, fmt.Errorf("the guest image has no layer %q; there are %s", name, known())
		}
		if !slices.ContainsFunc(recipes, func(have recipe) bool { return have.Name == name }) {
			recipes = append(recipes, r)
		}
	}
	agent, err := readAgent(opt.AgentPath)
	if err != nil {
		return Image{}, err
	}
	sum := sha256.Sum256(agent)

	layers := make([]layer, len(recipes))
	imageKey := func() string {
		h := sha256.New()
		fmt.Fprintf(h, "image %d\nagent %x\n", format, sum)
		for _, l := range layers {
			fmt.Fprintf(h, "layer %s\n", l.SHA256)
		}
		return hex.EncodeToString(h.Sum(nil))[:32]
	}
	cached := func(key string) (Image, bool) {
		dir, err := c.Lookup(section, key)
		if err != nil {
			return Image{}, false
		}
		img, err := readImage(dir)
		if err != nil {
			return Image{}, false
		}
		c.Touch(section, key)
		return img, true
	}
	if !opt.Refresh {
		// The image is checked against its mark; the layers that it was made
		// of need not be, their descriptions only give its name.
		known := true
		for i, r := range recipes {
			if layers[i], err = readLayer(c.Path(section, r.key(layers[:i]))); err != nil {
				known = false
				break
			}
		}
		if known {
			if img, ok := cached(imageKey()); ok {
				return img, nil
			}
		}
	}
	for i, r := range recipes {
		if layers[i], err = r.build(ctx, c, opt, layers[:i]); err != nil {
			return Image{}, err
		}
	}
	key := imageKey()
	if img, ok := cached(key); ok {
		return img, nil
	}
	opt.Progress("putting the guest image together")
	dir, err := c.Put(section, key, func(dir string) error {
		img := Image{Key: key, Agent: hex.EncodeToString(sum[:])}
		out, err := os.Create(filepath.Join(dir, imageFile))
		if err != nil {
			return err
		}
		defer out.Close()
		for _, l := range layers {
			b, err := os.ReadFile(l.path)
			if err != nil {
				return err
			}
			if _, err := out.Write(b); err != nil {
				return err
			}
			img.Layers = append(img.Layers, l.Name)
			img.Packages = append(img.Packages, l.Packages...)
			img.Bytes += int64(len(b))
			img.CompressedBytes += l.Compressed
		}
		t := initramfs.Tree{}
		t.File("init", 0o755, agent)
		b, err := t.Bytes()
		if err != nil {
			return err
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
		z, err := t.Compressed(6)
		if err != nil {
			return err
		}
		img.Bytes += int64(len(b))
		img.CompressedBytes += int64(len(z))
		if err := out.Close(); err != nil {
			return err
		}
		meta, err := json.MarshalIndent(img, "", " ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, metaFile), meta, 0o644)
	})
	if err != nil {
		return Image{}, fmt.Errorf("guest image: %w", err)
	}
	return readImage(dir)
}

const (
	imageFile = "initrd.cpio"
	metaFile  = "image.json"
)

func readImage(dir string) (Image, error) {
	b, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err != nil {
		return Image{}, err
	}
	var img Image
	if err := json.Unmarshal(b, &img); err != nil {
		return Image{}, fmt.Errorf("%s: %w", dir, err)
	}
	img.Path = filepath.Join(dir, imageFile)
	return img, nil
}

func readAgent(path string) ([]byte, error) {
	if path == "" {
		var err error
		if path, err = FindAgent(); err != nil {
			return nil, err
		}
	} else if err := checkAgent(path); err != nil {
		return nil, &NoAgentError{Err: err}
	}
	return os.ReadFile(path)
}

// BuildAgent compiles the agent from this source tree into dir, for tests and
// for whoever runs patchcheck with `go run`.
func BuildAgent(ctx context.Context, dir string) (string, error) {
	out := filepath.Join(dir, AgentName)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "patchcheck/cmd/patchcheck-guest")
	cmd.Env = append(proc.WithoutSecrets(os.Environ()), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	cmd.WaitDelay = 3 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cannot build the guest agent: %w\n%s", err, buf.String())
	}
	return out, nil
}
