// SPDX-License-Identifier: Apache-2.0

// Package strictyaml reads YAML into structs so that a typing error is an
// error: unknown keys are refused, and every message has line, column and the
// piece of source. It knows nothing of what the files mean.
package strictyaml

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Unmarshal fills v, a pointer to a struct, from b. The error's text is fit
// for a person: position, excerpt and, for an unknown key, the keys allowed at
// its place.
func Unmarshal(b []byte, v any) error {
	err := yaml.UnmarshalWithOptions(b, v, yaml.Strict())
	if err == nil {
		return nil
	}
	msg := Indent(yaml.FormatError(err, false, true))
	var unknown *yaml.UnknownFieldError
	if errors.As(err, &unknown) {
		if keys := siblings(unknown, reflect.TypeOf(v)); len(keys) > 0 {
			msg += "\n  allowed here: " + strings.Join(keys, ", ")
		}
	}
	return &Error{Msg: msg, err: err}
}

// Error is a file that is no YAML, or not of the struct's shape.
type Error struct {
	Msg string // indented by two blanks, several lines
	err error
}

func (e *Error) Error() string { return e.Msg }

func (e *Error) Unwrap() error { return e.err }

// At says what is wrong with the value at a YAML path such as
// "$.silence[0].id", with position and excerpt when the path is found in src.
func At(src []byte, path, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	msg := "  " + text
	p, err := yaml.PathString(path)
	if err != nil {
		return msg
	}
	if node, err := p.ReadNode(strings.NewReader(string(src))); err == nil && node != nil {
		pos := node.GetToken().Position
		msg = fmt.Sprintf("  [%d:%d] %s", pos.Line, pos.Column, text)
	}
	if ex, err := p.AnnotateSource(src, false); err == nil {
		msg += "\n" + Indent(string(ex))
	}
	return msg
}

// Indent moves a text of several lines by two blanks.
func Indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}

// siblings finds the struct whose keys stand beside the unknown one. The
// error does not name the struct, so the one is taken that stands under the
// key above, and among several the one that shares the most keys with the
// neighbours in the source; the list is advice, not a rule.
func siblings(e *yaml.UnknownFieldError, root reflect.Type) []string {
	if e.Token == nil {
		return nil
	}
	col := e.Token.Position.Column
	var near []string
	parent := ""
	for t := e.Token; t != nil; t = t.Prev {
		if v := strings.TrimSpace(t.Value); t.Position.Column < col && v != "" && v != "-" && v != "{" && v != "," && v != ":" {
			parent = v
			break
		}
		if t.Position.Column == col {
			near = append(near, t.Value)
		}
	}
	for t := e.Token.Next; t != nil && t.Position.Column >= col; t = t.Next {
		if t.Position.Column == col {
			near = append(near, t.Value)
		}
	}
	best, score := []string(nil), 0
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type, under string)
	walk = func(t reflect.Type, under string) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		var keys []string
		n := 0
		for i := range t.NumField() {
			k, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			if k == "" || k == "-" {
				continue
			}
			keys = append(keys, k)
			if slices.Contains(near, k) {
				n++
			}
			walk(t.Field(i).Type, k)
		}
		if under == parent || col == 1 && under == "" {
			n += 1 << 10
		}
		if n > score {
			best, score = keys, n
		}
	}
	walk(root, "")
	return best
}
