// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParsePrecision reads "0.1us", "250ns", "0.5%" or a plain number, which is in
// the primary metric's own unit.
func ParsePrecision(s string) (v float64, unit string, err error) {
	t := strings.TrimSpace(s)
	end := strings.LastIndexAny(t, "0123456789.") + 1
	v, err = strconv.ParseFloat(strings.TrimSpace(t[:end]), 64)
	suffix := strings.TrimSpace(t[end:])
	mul := map[string]float64{"": 1, "%": 1, "ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}[suffix]
	if err != nil || mul == 0 || !(v > 0) || math.IsInf(v, 0) {
		return 0, "", fmt.Errorf("%q is no precision: say half the width of the interval, such as 0.1us, 250ns or 0.5%%", s)
	}
	switch suffix {
	case "":
		return v, "", nil
	case "%":
		return v, "%", nil
	}
	return v * mul, "ns", nil
}

// Samples reads values that were measured elsewhere, one for each run: an
// object of two arrays (the first is the base), an array, or numbers one a
// line with # for comments. ok is false when b is none of these.
func Samples(b []byte) (names []string, values [][]float64, ok bool) {
	t := bytes.TrimSpace(b)
	if len(t) == 0 {
		return nil, nil, false
	}
	switch t[0] {
	case '[':
		var xs []float64
		if json.Unmarshal(t, &xs) != nil {
			return nil, nil, false
		}
		return []string{""}, [][]float64{xs}, true
	case '{':
		d := json.NewDecoder(bytes.NewReader(t))
		if _, err := d.Token(); err != nil {
			return nil, nil, false
		}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, nil, false
			}
			var xs []float64
			if d.Decode(&xs) != nil {
				return nil, nil, false
			}
			names, values = append(names, fmt.Sprint(k)), append(values, xs)
		}
		return names, values, len(names) == 2 && names[0] != names[1]
	}
	var xs []float64
	for _, l := range strings.Split(string(t), "\n") {
		l, _, _ = strings.Cut(l, "#")
		for _, w := range strings.Fields(l) {
			x, err := strconv.ParseFloat(w, 64)
			if err != nil {
				return nil, nil, false
			}
			xs = append(xs, x)
		}
	}
	return []string{""}, [][]float64{xs}, len(xs) > 0
}
