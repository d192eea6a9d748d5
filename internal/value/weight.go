package value

import "encoding/json"

// What decoded JSON takes of memory, in bytes, beside the bytes of its texts: about what Go's allocator gives.
const (
	weightOfValue  = 16 + 8   // in a list or an object, with what it points to
	weightOfList   = 24       // without its values
	weightOfObject = 48 + 288 // with room for 8 members
	weightOfMember = 40       // of every member, its name apart
	weightOfMore   = 16       // of every member of an object with more than 8
	smallObject    = 8        // members
)

// Weight estimates the memory that decoded JSON takes, but looks no further once that is over limit. What is
// shared counts each time.
func Weight(v any, limit int) int { return weigh(v, 0, limit) }

func weigh(v any, sum, limit int) int {
	sum += weightOfValue
	if sum > limit {
		return sum
	}
	switch v := v.(type) {
	case string:
		sum += len(v)
	case json.Number:
		sum += len(v)
	case []any:
		sum += weightOfList
		for _, e := range v {
			sum = weigh(e, sum, limit)
		}
	case map[string]any:
		if sum += weightOfObject; len(v) > smallObject {
			sum += len(v) * weightOfMore
		}
		for k, e := range v {
			sum = weigh(e, sum+weightOfMember+len(k), limit)
		}
	}
	return sum
}

// WeightOfText estimates the Weight of what JSON text says, without decoding it.
func WeightOfText(text []byte) int {
	sum := len(text)
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case ',':
			sum += weightOfValue
		case ':':
			sum += weightOfMember
		case '[':
			sum += weightOfList + weightOfValue
		case '{':
			sum += weightOfObject + weightOfValue
		}
	}
	return sum
}
