// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"strings"
	"testing"
)

type top struct {
	Name string   `yaml:"name"`
	Sub  sub      `yaml:"sub"`
	List []member `yaml:"list"`
}

type sub struct {
	A int `yaml:"a"`
	B int `yaml:"b"`
}

type member struct {
	A int    `yaml:"a"`
	C string `yaml:"c"`
}

func TestUnmarshal(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"good", "name: x\nsub: {a: 1}\nlist: [{a: 1, c: d}]\n", ""},
		{"at the top", "nam: x\n", "[1:1] unknown field \"nam\"\n|allowed here: name, sub, list"},
		{"below", "sub:\n  a: 1\n  bb: 2\n", "[3:3]|allowed here: a, b"},
		{"below, alone", "sub:\n  bb: 2\n", "[2:3]|allowed here: a, b"},
		{"in a list", "list:\n  - c: x\n    d: 2\n", "[3:5]|allowed here: a, c"},
		{"type", "sub:\n  a: x\n", "[2:6]"},
		{"twice", "name: a\nname: b\n", "[2:1]"},
	} {
		var v top
		err := Unmarshal([]byte(c.text), &v)
		if c.want == "" {
			if err != nil || v.Sub.A != 1 || len(v.List) != 1 {
				t.Errorf("%s: %+v, %v", c.name, v, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: taken", c.name)
			continue
		}
		for _, w := range strings.Split(c.want, "|") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in:\n%v", c.name, w, err)
			}
		}
	}
}

func TestAt(t *testing.T) {
	src := []byte("sub:\n  a: 1\n  b: 2\n")
	if got := At(src, "$.sub.b", "b is %d", 2); !strings.HasPrefix(got, "  [3:6] b is 2\n") || !strings.Contains(got, ">  3 |   b: 2") {
		t.Errorf("got:\n%s", got)
	}
	if got := At(src, "$.none", "gone"); !strings.HasPrefix(got, "  gone") {
		t.Errorf("got:\n%s", got)
	}
	if got := At(src, "no path", "gone"); got != "  gone" {
		t.Errorf("got:\n%s", got)
	}
}
