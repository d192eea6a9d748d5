package agents

import (
	"cmp"
	"fmt"
)

// withoutData returns what a tool has returned with a text in place of each picture, recording or other file in it:
// blocks as MCP has them, with their data in base64, which is of no use to a model as text.
func withoutData(v any) any {
	list, ok := v.([]any)
	if !ok {
		if text := blockName(v); text != "" {
			return text
		}
		return v
	}
	named := make([]any, len(list))
	for i, item := range list {
		if named[i] = item; blockName(item) != "" {
			named[i] = blockName(item)
		}
	}
	return named
}

// blockName is the text in place of a block; "": the value is none with data.
func blockName(v any) string {
	block, _ := v.(map[string]any)
	switch block["type"] {
	case "image", "audio":
		if data, ok := block["data"].(string); ok {
			media, _ := block["mimeType"].(string)
			return fmt.Sprintf("[%s, %s]", cmp.Or(media, block["type"].(string)), sizeOf(data))
		}
	case "resource":
		of, _ := block["resource"].(map[string]any)
		if data, ok := of["blob"].(string); ok {
			uri, _ := of["uri"].(string)
			media, _ := of["mimeType"].(string)
			return fmt.Sprintf("[%s, %s, %s]", cmp.Or(uri, "resource"), cmp.Or(media, "data"), sizeOf(data))
		}
	}
	return ""
}

// sizeOf says how many bytes there are in base64.
func sizeOf(data string) string {
	n := float64(len(data) / 4 * 3)
	for i := len(data) - 1; i >= max(0, len(data)-2) && data[i] == '='; i-- {
		n--
	}
	return sizeText(n)
}

func sizeText(n float64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%.0f bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", n/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", n/(1<<20))
}

// Pictures returns the data, in base64, of the pictures in what a tool has returned, in order: blocks as MCP has them.
func Pictures(v any) (data []string) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, item := range list {
		block, _ := item.(map[string]any)
		of, key := block, "data"
		if block["type"] == "resource" {
			of, _ = block["resource"].(map[string]any)
			key = "blob"
		} else if block["type"] != "image" {
			continue
		}
		if text, ok := of[key].(string); ok {
			data = append(data, text)
		}
	}
	return data
}
