package page_test

import (
	"strconv"
	"strings"
	"testing"
)

// markdown shows texts and gives what came of them.
const markdown = `(async (texts) => {
	const {html, render} = await import(document.scripts[0].src.replace('app', 'ui'));
	const {Markdown} = await import(document.scripts[0].src.replace('app', 'markdown'));
	const box = document.body.appendChild(document.createElement('div'));
	return texts.map((text) => {
		render(html` + "`<${Markdown} text=${text} />`" + `, box);
		return box.firstChild.innerHTML;
	});
})`

func TestMarkdown(t *testing.T) {
	b := newSite(t, options{idle: true}).open("", "")
	for _, c := range [][2]string{
		{"# One #\ntwo\n\nthree", `<p role="heading" aria-level="3" class="h h1">One</p><p>two</p><p>three</p>`},
		{"a **b _c_** `d*e*` some_long_name", `<p>a <strong>b <em>c</em></strong> <code dir="ltr">d*e*</code> some_long_name</p>`},
		{"```go\nx < 1\n```\ny", `<pre dir="ltr" title="go"><code>x &lt; 1</code></pre><p>y</p>`},
		{"- a\n- b\n  1. c\n\nd", `<ul><li><p>a</p></li><li><p>b</p><ol start="1"><li><p>c</p></li></ol></li></ul><p>d</p>`},
		{"> q\n> r", `<blockquote><p>q` + "\n" + `r</p></blockquote>`},
		{"| a | b |\n|---|---|\n| 1 | *2* |", `<table><thead><tr><th scope="col">a</th><th scope="col">b</th></tr></thead><tbody><tr><td>1</td><td><em>2</em></td></tr></tbody></table>`},
		{"[web](https://a.example/x) https://b.example", `<p><a href="https://a.example/x" target="_blank" rel="noreferrer">web</a> <a href="https://b.example" target="_blank" rel="noreferrer">https://b.example</a></p>`},
		{"[no](javascript:alert(1)) ![i](http://a.example/i.png)", `<p>[no](javascript:alert(1)) <a href="http://a.example/i.png" target="_blank" rel="noreferrer">i</a></p>`},
		{"<b>x</b>", `<p>&lt;b&gt;x&lt;/b&gt;</p>`},
	} {
		b.is("(async () => (await "+markdown+"(["+strconv.Quote(c[0])+"]))[0].replaceAll('<', '{').replaceAll('>', '}').replaceAll('&', '+'))().then((v) => { window.made = v }), true", true)
		b.is("window.made", strings.NewReplacer("<", "{", ">", "}", "&", "+").Replace(c[1]))
	}
}

// Whatever the text, it becomes none but harmless elements, and soon.
func TestMarkdownOfEnemies(t *testing.T) {
	b := newSite(t, options{idle: true}).open("", "")
	bad := value[[]string](b, `(async () => {
		const bits = ['*', '**', '_', '__', '~~', '\x60', '\x60\x60\x60', '[', ']', '(', ')', '](', '![', '<', '>', '|', '|-|', '\n', '\n\n', '# ', '- ', '1. ', '> ', '  ', '\\',
			'https://a.example', 'javascript:x', 'data:text/html,x', '<script>', '<img src=x onerror=x>', '\u202e', '\0', '\ud800', 'a', 'word '];
		let seed = 7;
		const next = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
		const texts = [...Array(800)].map(() => [...Array(1 + next(60))].map(() => bits[next(bits.length)]).join(''));
		for (const bit of bits) texts.push(bit.repeat(Math.floor(6000 / bit.length)), (bit + 'a ').repeat(1500), ('a ' + bit).repeat(1500));
		const fine = new Set('DIV P STRONG EM DEL CODE PRE UL OL LI BLOCKQUOTE HR TABLE THEAD TBODY TR TH TD A SPAN BUTTON'.split(' '));
		const {html, render} = await import(document.scripts[0].src.replace('app', 'ui'));
		const {Markdown} = await import(document.scripts[0].src.replace('app', 'markdown'));
		const box = document.body.appendChild(document.createElement('div'));
		const wrong = [];
		for (const text of texts) {
			const from = performance.now();
			render(html`+"`<${Markdown} text=${text} />`"+`, box);
			const took = performance.now() - from;
			if (took > 4000) wrong.push(took + ' ms for ' + JSON.stringify(text.slice(0, 40)));
			for (const one of box.querySelectorAll('*')) {
				if (!fine.has(one.tagName)) wrong.push(one.tagName + ' of ' + JSON.stringify(text.slice(0, 200)));
				if (one.tagName === 'A' && !/^https?:$/.test(one.protocol)) wrong.push(one.href);
			}
			if (/[\0\u202e]|\ud800(?![\udc00-\udfff])/.test(box.textContent)) wrong.push('raw ' + JSON.stringify(text.slice(0, 200)));
		}
		return wrong.slice(0, 10);
	})()`)
	for _, text := range bad {
		t.Error(text)
	}
}
