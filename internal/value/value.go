// Package value handles decoded JSON: nil, bool, int64, float64, string, []any, map[string]any.
package value
