package value

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// minPart is the least length of a line, or of a secret without the white space around it, that counts by itself.
const minPart = 8

// variants lists what a secret is without escapes: as it is, trimmed, with other line ends or on one line, and its
// lines.
func variants(secret string) []string {
	all := []string{secret}
	unix := strings.ReplaceAll(secret, "\r\n", "\n")
	for _, text := range []string{unix, strings.ReplaceAll(unix, "\n", "\r\n")} {
		all = append(all, text, strings.TrimSpace(text))
	}
	var lines []string
	for line := range strings.FieldsFuncSeq(secret, func(r rune) bool { return r == '\n' || r == '\r' }) {
		lines = append(lines, strings.TrimSpace(line))
		all = append(all, line)
	}
	if len(lines) > 1 {
		all = append(all, strings.Join(lines, ""), strings.Join(lines, " "))
	}
	all = append(all, lines...)
	parts := slices.DeleteFunc(all[1:], func(s string) bool { return len(s) < minPart })
	return append(all[:1], parts...)
}

// codes lists the forms of a text that may be broken into lines.
func codes(text string) []needle {
	sums := fmt.Sprint([]byte(text))
	digits := fmt.Sprintf("%x", text)
	sums = sums[1 : len(sums)-1]
	colons := strings.ReplaceAll(fmt.Sprintf("% x", text), " ", ":")
	out := []needle{{text: sums}, {text: digits}, {text: strings.ToUpper(digits)},
		{text: strings.ReplaceAll(sums, " ", ",")}, {text: strings.ReplaceAll(sums, " ", ", ")},
		{text: colons}, {text: strings.ToUpper(colons)}}
	// In base64, six bits a character, a secret that begins at byte 0, 1 or 2 of a group of three
	// has one of three looks. Only the characters that are all its own are sought.
	for skip := range 3 {
		bits := 8 * (skip + len(text))
		from, to := (8*skip+5)/6, bits/6
		if to-from < 4 {
			continue // too short to tell from other text
		}
		n := needle{before: min(skip, 1)}
		if bits%6 != 0 {
			n.after = 1
		}
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			n.text = enc.EncodeToString([]byte(strings.Repeat("\x00", skip) + text))[from:to]
			out = append(out, n)
		}
	}
	return out
}

// needle is one form of a secret.
type needle struct {
	text string
	// before and after say how many more characters, if there, hold bits of the secret: a base64
	// text shares its outermost characters with what surrounds the secret.
	before, after int
}

// widen takes in the characters of a base64 text that hold bits of the secret and of others, and the padding.
func (n *needle) widen(s string, sp span) span {
	if n.before > 0 && sp.from > 0 && isBase64(s[sp.from-1]) {
		sp.from--
	}
	if n.after > 0 && sp.to < len(s) && isBase64(s[sp.to]) {
		sp.to++
		for range 2 {
			if sp.to < len(s) && s[sp.to] == '=' {
				sp.to++
			}
		}
	}
	return sp
}

func isBase64(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("+/-_", b) >= 0
}

// span is a part of a text that shows a secret.
type span struct{ from, to int }

// finder finds needles, all of them in one pass.
type finder struct {
	needles map[[2]byte][]needle // by their first two bytes, the longest first
	first   [1 << 10]uint64      // the bit of first two bytes says whether needles has them
	longest int                  // bytes of the longest needle, widened
}

func (f *finder) add(n needle) {
	if f.needles == nil {
		f.needles = map[[2]byte][]needle{}
	}
	head := [2]byte{n.text[0], n.text[1]}
	list := f.needles[head]
	if slices.Contains(list, n) {
		return
	}
	list = append(list, n)
	slices.SortStableFunc(list, func(a, b needle) int { return cmp.Compare(len(b.text), len(a.text)) })
	f.needles[head] = list
	f.first[int(head[0])<<2|int(head[1])>>6] |= 1 << (head[1] & 63)
	f.longest = max(f.longest, len(n.text)+3*n.after)
}

// find calls found with each place that is not inside the one before.
func (f *finder) find(s string, found func(span)) {
	end := 0
	for i := 0; i+1 < len(s); i++ {
		if f.first[int(s[i])<<2|int(s[i+1])>>6]&(1<<(s[i+1]&63)) == 0 {
			continue
		}
		for _, n := range f.needles[[2]byte{s[i], s[i+1]}] {
			if i+len(n.text)+n.after > end && strings.HasPrefix(s[i:], n.text) {
				sp := n.widen(s, span{i, i + len(n.text)})
				found(sp)
				end = max(end, sp.to)
			}
		}
	}
}

// readings are the ways in which a text may be read: as it is, and with one kind of escapes undone.
type readings struct {
	all [5]reading
	n   int
}

func (l *readings) add(r reading, finders ...*finder) {
	if l.n == 0 || r.marks != nil {
		copy(r.finders[:], finders)
		l.all[l.n] = r
		l.n++
	}
}

func (r *Redactor) readings(s string) (l readings) {
	l.add(reading{text: s}, &r.plain, &r.coded)
	l.add(read(s, "%", undoPercent), &r.plain)
	l.add(read(s, `\`, undoBackslash), &r.plain)
	l.add(read(s, "&", undoEntity), &r.plain)
	l.add(read(s, "\r\n\\", undoBreak), &r.coded)
	return l
}

// find returns where secrets are, from left to right; nil when there are none.
func (l *readings) find() []span {
	var spans []span
	for i := range l.n {
		rd := &l.all[i]
		for _, f := range rd.finders {
			if f == nil {
				continue
			}
			f.find(rd.text, func(sp span) {
				sp = span{rd.start(sp.from), rd.end(sp.to)}
				if n := len(spans); n > 0 && spans[n-1].from <= sp.from && sp.from <= spans[n-1].to {
					spans[n-1].to = max(spans[n-1].to, sp.to)
					return
				}
				spans = append(spans, sp)
			})
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return spans
}
