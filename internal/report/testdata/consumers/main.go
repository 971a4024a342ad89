// SPDX-License-Identifier: Apache-2.0

// Consumers reads the files that patchcheck report writes with libraries that
// other people made to consume them, and prints what they understood. It is a
// module of its own, so that patchcheck does not depend on them.
//
// Usage: consumers junit|sarif <file. The exit code is 1 when a library
// refuses the file. It must be run in its own folder: the schema of OASIS is
// taken from the source of the module that carries it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/joshdk/go-junit"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/xeipuuv/gojsonschema"
)

// understood is what both formats come to.
type understood struct {
	Tests, Passed, Failed, Errors, Skipped int // JUnit
	Results, Suppressed, Notifications     int // SARIF
	Rules                                  int
	Successful                             bool
}

func main() {
	var u understood
	var err error
	switch {
	case len(os.Args) != 2:
		err = fmt.Errorf("usage: consumers junit|sarif")
	case os.Args[1] == "junit":
		u, err = readJUnit(os.Stdin)
	case os.Args[1] == "sarif":
		u, err = readSARIF(os.Stdin)
	default:
		err = fmt.Errorf("no format %q", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(u)
}

func readJUnit(r io.Reader) (u understood, err error) {
	suites, err := junit.IngestReader(r)
	if err != nil {
		return u, err
	}
	for _, s := range suites {
		u.Tests += s.Totals.Tests
		u.Passed += s.Totals.Passed
		u.Failed += s.Totals.Failed
		u.Errors += s.Totals.Error
		u.Skipped += s.Totals.Skipped
	}
	return u, nil
}

func readSARIF(r io.Reader) (u understood, err error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return u, err
	}
	log, err := sarif.FromBytes(b)
	if err != nil {
		return u, err
	}
	if err := validate(b); err != nil {
		return u, err
	}
	for _, run := range log.Runs {
		u.Results += len(run.Results)
		u.Rules += len(run.Tool.Driver.Rules)
		for _, res := range run.Results {
			if len(res.Suppressions) > 0 {
				u.Suppressed++
			}
		}
		for _, inv := range run.Invocations {
			u.Successful = inv.ExecutionSuccessful != nil && *inv.ExecutionSuccessful
			u.Notifications += len(inv.ToolExecutionNotifications)
		}
	}
	return u, nil
}

// validate holds the document as it is against the schema of OASIS. The
// library has a function for this, which validates what it understood: what it
// does not know is no longer there.
func validate(doc []byte) error {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/owenrumney/go-sarif/v3").Output()
	if err != nil {
		return err
	}
	name := filepath.Join(strings.TrimSpace(string(dir)), "pkg", "report", "v210", "sarif", "schema.go")
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		return err
	}
	schema := ""
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && len(l.Value) > len(schema) {
			schema = l.Value
		}
		return true
	})
	if schema, err = strconv.Unquote(schema); err != nil {
		return err
	}
	res, err := gojsonschema.Validate(gojsonschema.NewStringLoader(schema), gojsonschema.NewBytesLoader(doc))
	if err != nil {
		return err
	}
	var bad []string
	for _, e := range res.Errors() {
		bad = append(bad, e.String())
	}
	if len(bad) > 0 {
		return errors.New(strings.Join(bad, "\n"))
	}
	return nil
}
