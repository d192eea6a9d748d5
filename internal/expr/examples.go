package expr

import (
	"slices"
	"strings"
)

// Example shows a function to people.
type Example struct {
	Name  string
	Takes string // its arguments: replace(string, string, string, [number])
	Doc   string
	Shows string // an expression over the inputs of docs/expressions.md
	Gives string // its result, as JSON
}

// Examples returns a group of functions for the documentation: Lists, Texts, Numbers, or Maps and conversions.
func Examples(group string) []Example {
	list := slices.Clone(examples[group])
	for i := range list {
		list[i].Takes = functions[list[i].Name].signature(list[i].Name)
	}
	return list
}

// Functions returns the number of functions.
func Functions() int { return len(functions) }

// signature names the arguments by their kinds.
func (f *function) signature(name string) string {
	if f.loop != nil {
		switch {
		case name == "reduce":
			return name + "(list, expression, [start])"
		case name == "sortBy":
			return name + "(list, expression, [order])"
		case f.predicate == boolean:
			return name + "(list, condition)"
		}
		return name + "(list, expression)"
	}
	parts := make([]string, len(f.params))
	for i, k := range f.params {
		parts[i] = strings.NewReplacer("a ", "", "any value", "any").Replace(k.String())
		if i >= f.least {
			parts[i] = "[" + parts[i] + "]"
		}
	}
	if f.variadic {
		parts = append(parts, "…")
	}
	return name + "(" + strings.Join(parts, ", ") + ")"
}

// ex is an Example without its arguments.
func ex(name, doc, shows, gives string) Example {
	return Example{Name: name, Doc: doc, Shows: shows, Gives: gives}
}

// examples are all functions, in the order of the page.
var examples = map[string][]Example{
	"Lists": {
		ex("map", "what the expression gives for each item", `map(inputs.order.items, .sku)`, `["x", "y"]`),
		ex("filter", "the items for which it is true",
			`filter(inputs.order.items, .price > 3)`, `[{"sku": "y", "price": 5}]`),
		ex("find", "the first of them, or null", `find(inputs.order.items, .sku == "y").price`, `5`),
		ex("findLast", "the last of them, or null", `findLast(inputs.tags, # == "b")`, `"b"`),
		ex("findIndex", "where the first one stands, or null", `findIndex(inputs.tags, # == "a")`, `1`),
		ex("findLastIndex", "where the last one stands, or null", `findLastIndex(inputs.tags, # == "b")`, `2`),
		ex("all", "true for all", `all(inputs.order.items, .price > 0)`, `true`),
		ex("any", "true for one or more", `any(inputs.order.items, .price > 4)`, `true`),
		ex("none", "true for none", `none(inputs.tags, # == "z")`, `true`),
		ex("one", "true for exactly one", `one(inputs.tags, # == "a")`, `true`),
		ex("count", "for how many it is true", `count(inputs.tags, # == "b")`, `2`),
		ex("sum", "the sum; of numbers without an expression", `sum(inputs.order.items, .price)`, `8`),
		ex("reduce", "one value of all; `#acc` is what there was so far",
			`reduce(inputs.order.items, #acc + .price, 0)`, `8`),
		ex("groupBy", "lists of items by key", `groupBy(inputs.tags, #)`, `{"a": ["a"], "b": ["b", "b"]}`),
		ex("sortBy", "sorted; the order is `\"asc\"` or `\"desc\"`",
			`sortBy(inputs.order.items, .price, "desc")[0].sku`, `"y"`),
		ex("sort", "sorted, in the order given", `sort(inputs.tags)`, `["a", "b", "b"]`),
		ex("uniq", "each item once", `uniq(inputs.tags)`, `["b", "a"]`),
		ex("reverse", "from the last item to the first", `reverse(inputs.tags)`, `["b", "a", "b"]`),
		ex("concat", "one list after the other", `concat(inputs.tags, ["c"])`, `["b", "a", "b", "c"]`),
		ex("flatten", "the items of lists in the list", `flatten([[1, 2], [3]])`, `[1, 2, 3]`),
		ex("first", "the first item, or null", `first(inputs.tags)`, `"b"`),
		ex("last", "the last item, or null", `last(inputs.tags)`, `"b"`),
		ex("take", "the first items", `take(inputs.tags, 2)`, `["b", "a"]`),
		ex("get", "an item or a field, or null", `get(inputs.tags, 9)`, `null`),
		ex("len", "how many items, fields or characters", `len(inputs.tags)`, `3`),
		ex("join", "a text of all, with the second text between them", `join(inputs.tags, ", ")`, `"b, a, b"`),
		ex("converged", "whether the last items, so many, are equal", `converged([1, 2, 2], 2)`, `true`),
	},
	"Texts": {
		ex("upper", "in upper case", `upper(inputs.name)`, `"ADA LOVELACE"`),
		ex("lower", "in lower case", `lower(inputs.name)`, `"ada lovelace"`),
		ex("trim", "without space, or those characters, around it", `trim("  x ")`, `"x"`),
		ex("trimPrefix", "without that beginning", `trimPrefix("v1.2", "v")`, `"1.2"`),
		ex("trimSuffix", "without that end", `trimSuffix("a.md", ".md")`, `"a"`),
		ex("split", "the parts between the second text; at most so many", `split("a,b", ",")`, `["a", "b"]`),
		ex("splitAfter", "the same, each part with what ended it", `splitAfter("a,b", ",")`, `["a,", "b"]`),
		ex("replace", "the second text replaced by the third; so many times", `replace("a-b", "-", "+")`, `"a+b"`),
		ex("repeat", "so many times", `repeat("ab", 2)`, `"abab"`),
		ex("indexOf", "where the second text begins first, or -1", `indexOf("abcb", "b")`, `1`),
		ex("lastIndexOf", "where it begins last, or -1", `lastIndexOf("abcb", "b")`, `3`),
		ex("hasPrefix", "whether it begins so", `hasPrefix("abc", "a")`, `true`),
		ex("hasSuffix", "whether it ends so", `hasSuffix("abc", "c")`, `true`),
		ex("replaceAll", "each match replaced; `$1` is the first group",
			`replaceAll("2024-05", "([0-9]+)-([0-9]+)", "$2/$1")`, `"05/2024"`),
	},
	"Numbers": {
		ex("abs", "without its sign", `abs(-3)`, `3`),
		ex("ceil", "rounded up", `ceil(1.2)`, `2`),
		ex("floor", "rounded down", `floor(1.8)`, `1`),
		ex("round", "rounded to the nearest integer", `round(1.5)`, `2`),
		ex("max", "the greatest, or null of an empty list", `max(1, inputs.n, 3)`, `7`),
		ex("min", "the least, or null of an empty list", `min([4, 2])`, `2`),
		ex("mean", "the mean", `mean([1, 2, 6])`, `3`),
		ex("median", "the median", `median([1, 2, 6])`, `2`),
	},
	"Maps and conversions": {
		ex("keys", "the keys, sorted", `keys({b: 1, a: 2})`, `["a", "b"]`),
		ex("values", "the values, in the order of the keys", `values({b: 1, a: 2})`, `[2, 1]`),
		ex("merge", "the fields of both; where both have one, that of the second", `merge({a: 1, b: 1}, {b: 2})`,
			`{"a": 1, "b": 2}`),
		ex("toPairs", "a list of key and value", `toPairs({a: 1})`, `[["a", 1]]`),
		ex("fromPairs", "a map of such a list", `fromPairs([["a", 1]])`, `{"a": 1}`),
		ex("string", "as text", `string(7)`, `"7"`),
		ex("int", "as an integer", `int("7")`, `7`),
		ex("float", "as a number", `float("7.5")`, `7.5`),
		ex("type", "the type's name", `type(inputs.tags)`, `"array"`),
		ex("toJSON", "as JSON", `toJSON({a: [1]})`, `"{\"a\":[1]}"`),
		ex("fromJSON", "what the JSON says", `fromJSON("[1, 2]")`, `[1, 2]`),
		ex("toBase64", "in base64", `toBase64("hi")`, `"aGk="`),
		ex("fromBase64", "the text that is in base64", `fromBase64("aGk=")`, `"hi"`),
		ex("fromCSV", "the rows of CSV (RFC 4180), whose first row has the names; all values are texts",
			`fromCSV("id,n\na,1")`, `[{"id": "a", "n": "1"}]`),
	},
}
