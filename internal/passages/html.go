package passages

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// ofHTML reads a page as if it were Markdown: its headings, paragraphs, items, rows and blocks of code. What people do
// not read of it, and the way around the site, are left out.
func ofHTML(text string, o Options) ([]Passage, error) {
	z := html.NewTokenizer(strings.NewReader(text))
	var p page
	for {
		switch z.Next() {
		case html.ErrorToken: // the end; a page that is cut is read as far as it goes
			list := cut(p.text(), !o.Whole, o.MaxBytes)
			for i := range list {
				list[i].First, list[i].Last = 0, 0 // those of a text that nobody has
				if title := words(p.title.String()); title != "" {
					list[i].Metadata = map[string]any{"title": title}
				}
			}
			return list, nil
		case html.TextToken:
			p.said(string(z.Text()))
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			p.begin(atom.Lookup(name))
		case html.EndTagToken:
			name, _ := z.TagName()
			p.end(atom.Lookup(name))
		}
	}
}

// page is what has been read of a page.
type page struct {
	out     strings.Builder
	block   strings.Builder // the block under way
	mark    string          // that it begins with
	title   strings.Builder
	unread  atom.Atom // the element under way that is left out; 0: none
	depth   int       // how many of its name stand in each other
	inTitle bool
	code    bool
}

// unread are elements that are left out with all that they have.
var unread = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true,
	atom.Nav: true, atom.Svg: true, atom.Iframe: true, atom.Object: true, atom.Form: true, atom.Select: true,
	atom.Math: true}

// blocks are elements that begin and end a paragraph.
var blocks = map[atom.Atom]string{atom.P: "", atom.Div: "", atom.Section: "", atom.Article: "", atom.Main: "",
	atom.Header: "", atom.Footer: "", atom.Aside: "", atom.Ul: "", atom.Ol: "", atom.Dl: "", atom.Dt: "", atom.Dd: "",
	atom.Table: "", atom.Blockquote: "", atom.Figure: "", atom.Figcaption: "", atom.Hr: "", atom.Body: "",
	atom.Head: "", atom.Details: "", atom.Summary: "", atom.Tr: "", atom.Pre: "", atom.Li: "- ", atom.Caption: "",
	atom.H1: "# ", atom.H2: "## ", atom.H3: "### ", atom.H4: "#### ", atom.H5: "##### ", atom.H6: "###### "}

func (p *page) begin(a atom.Atom) {
	switch mark, block := blocks[a]; {
	case p.unread != 0:
		if a == p.unread {
			p.depth++
		}
	case unread[a]:
		p.unread, p.depth = a, 1
	case a == atom.Title:
		p.inTitle = true
	case a == atom.Br:
		p.block.WriteByte('\n')
	case a == atom.Td, a == atom.Th:
		p.block.WriteString(" | ")
	case block:
		p.flush()
		p.mark, p.code = mark, a == atom.Pre
	}
}

func (p *page) end(a atom.Atom) {
	_, block := blocks[a]
	switch {
	case p.unread != 0:
		if a == p.unread {
			if p.depth--; p.depth == 0 {
				p.unread = 0
			}
		}
	case a == atom.Title:
		p.inTitle = false
	case block:
		p.flush()
	}
}

func (p *page) said(text string) {
	switch {
	case p.unread != 0:
	case p.inTitle:
		p.title.WriteString(text)
	default:
		p.block.WriteString(text)
	}
}

// flush ends the block under way.
func (p *page) flush() {
	text := p.block.String()
	if p.code {
		if strings.TrimSpace(text) != "" {
			p.out.WriteString("```\n" + strings.ReplaceAll(strings.Trim(text, "\n"), "```", "'''") + "\n```\n\n")
		}
	} else if line := folded(text); line != "" {
		p.out.WriteString(p.mark + line + "\n\n")
	}
	p.block.Reset()
	p.mark, p.code = "", false
}

func (p *page) text() string {
	p.flush()
	return p.out.String()
}

// folded is a text with its white space folded. A "#" that it begins with makes no heading.
func folded(text string) string { return strings.TrimLeft(words(text), "#| ") }

func words(text string) string { return strings.Join(strings.Fields(text), " ") }
