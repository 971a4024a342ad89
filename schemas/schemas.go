// SPDX-License-Identifier: Apache-2.0

// Package schemas owns the published JSON Schemas (draft 2020-12) of what
// patchcheck writes for other programs. They are made from the Go types and
// their comments: after a change of a type, run
//
//	go test ./schemas -update
//
// docs/formats.md says what may change without a new version.
package schemas

import _ "embed"

// RunID identifies the schema of "patchcheck report --format json"; documents
// name it as their "$schema". It ends in the version, runfolder.Schema.
const RunID = "urn:patchcheck:run:1"

// Run is the schema of "patchcheck report --format json". Its $defs
// runfolder.Run and runfolder.Cell are those of run.json and cells/*.json in a
// run folder.
//
//go:embed run.schema.json
var Run []byte

// BenchID identifies the schema of "patchcheck bench report --format json". It
// is bench.SchemaID.
const BenchID = "urn:patchcheck:bench:1"

// Bench is the schema of "patchcheck bench report --format json". Its $defs
// bench.Experiment is that of bench.json in a run folder.
//
//go:embed bench.schema.json
var Bench []byte
