// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"patchcheck/checks/fio"
)

// Save writes bench.json, whole or not at all. An experiment without a folder
// is not written.
func (e *Experiment) Save() error {
	if e.dir == "" {
		return nil
	}
	b, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(e.dir, File)
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		os.Remove(tmp)
		return fmt.Errorf("cannot write the run folder: %w", err)
	}
	return os.Rename(tmp, path)
}

// Dir is the run folder, "" for an experiment in memory.
func (e *Experiment) Dir() string { return e.dir }

// ErrNone says that a run folder holds no measurement.
var ErrNone = errors.New("no measurement: it has no " + File + " (patchcheck bench makes one)")

// Open reads an experiment and the raw outputs of its boots that count from a
// run folder. A folder without a measurement gives ErrNone.
func Open(dir string) (*Experiment, error) {
	b, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	if err != nil {
		return nil, err
	}
	e := &Experiment{dir: dir}
	if err := json.Unmarshal(b, e); err != nil {
		return nil, fmt.Errorf("%s/%s is damaged: %w", dir, File, err)
	}
	if e.Schema > Schema {
		return nil, fmt.Errorf("%s was written by a newer patchcheck (schema %d, this one reads %d): update patchcheck", dir, e.Schema, Schema)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for i := range e.Boots {
		for k := range e.Boots[i].Runs {
			r := &e.Boots[i].Runs[k]
			if r.Fio == "" || r.Warmup || e.Boots[i].Rejected != "" {
				continue
			}
			b, err := root.ReadFile(r.Fio)
			if err != nil {
				return nil, fmt.Errorf("%s: the raw output of boot %d is gone: %w", dir, e.Boots[i].Index, err)
			}
			o, err := fio.Parse(bytes.NewReader(b))
			if err != nil {
				return nil, fmt.Errorf("%s/%s: %w", dir, r.Fio, err)
			}
			r.out = &o
		}
	}
	return e, nil
}
