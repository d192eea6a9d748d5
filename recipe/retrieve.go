package recipe

import (
	"io/fs"
	"path"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// DefaultTopK is how many documents steps and agents look up that do not say how many.
const DefaultTopK = 5

// Retrieve looks documents up.
type Retrieve struct {
	Pos    diagnostics.Position
	Query  *Value // a string, which may hold expressions
	TopK   int    // 1 to 100; DefaultTopK when not given
	From   Name   // the zero Name when not given
	Filter *Value // a mapping, which may hold expressions, or an expression; nil: none
	Rerank *Rerank
}

// Rerank puts documents that were found into a better order.
type Rerank struct {
	By   Name
	TopK int // how many of them stay, the best; 0 when not given: all
}

// Index puts documents where retrieve steps find them. It has either Files or Documents.
type Index struct {
	Pos       diagnostics.Position
	Into      Name // the zero Name when not given
	Files     *IndexFiles
	Documents *Value // a list, which may hold expressions, or an expression
	Metadata  *Value // of each document: a mapping, likewise; nil: none
	BySize    bool   // headings begin no passage
	MaxBytes  int    // of a passage; 0 when not given
	Stale     bool   // what is no longer there is deleted
}

// IndexFiles says which files are indexed. Both may hold expressions.
type IndexFiles struct {
	In    *Value // nil: the folder that the host lets recipes read
	Match *Value // nil: all files
}

// The keys of retrieve and index steps.
var (
	placeKeys = []Argument{
		{Name: "query", Type: typeString, Required: true, Doc: "What to look for."},
		{Name: "top_k", Type: typeHundred, Doc: "The maximum number of documents. Defaults to 5. No expressions."},
		{Name: "from", Type: typeWord,
			Doc: "The retriever, by its name in the host. Defaults to the host's default. No expressions."},
		{Name: "filter", Type: typeValues,
			Doc: "What the metadata of a document must have, by name: a value, or one of a list."},
		{Name: "rerank", Type: typeRerank, Doc: "Improves the order of the documents. No expressions."},
	}
	indexKeys = []Argument{
		{Name: "into", Type: typeWord,
			Doc: "The index, by its name in the host. Defaults to the host's default. No expressions."},
		{Name: "files", Type: typeFiles, Doc: "Files to index. Either this or documents."},
		{Name: "documents", Type: typeDocuments,
			Doc: "Texts to index, each {source, text}, optionally with metadata and type. Either this or files."},
		{Name: "metadata", Type: typeValues, Doc: "Metadata of all documents, for filters."},
		{Name: "chunk", Type: typeChunk, Doc: "How texts are cut into passages. No expressions."},
		{Name: "stale", Type: typeString, Allowed: []string{"keep", "delete"},
			Doc: "delete removes sources below the folder whose files no longer exist; " +
				"with documents, all other sources. Defaults to keep."},
	}
	filesObject = newArguments("index.files", []Argument{
		{Name: "in", Type: typeString,
			Doc: "A folder, relative to tools.file.base of the host. Defaults to that folder."},
		{Name: "match", Type: typeString,
			Doc: "A pattern for paths in it, such as **/*.md; ** is any number of folders. Defaults to **, all files."},
	})
	documentObject = newArguments("index.document", []Argument{
		{Name: "source", Type: typeString, Required: true, Doc: "Where the text comes from, such as a path."},
		{Name: "text", Type: typeString, Required: true, Doc: "The text to index."},
		{Name: "metadata", Type: typeValues, Doc: "Metadata of the document, for filters."},
		{Name: "type", Type: typeString, Allowed: []string{"text", "markdown", "html", "csv", "json"},
			Doc: "The format of the text. Defaults to that of the suffix of source, otherwise markdown."},
	})
	rerankObject = newArguments("retrieve.rerank", []Argument{
		{Name: "by", Type: typeWord, Required: true, Doc: "The reranker, by its name in the host."},
		{Name: "top_k", Type: typeHundred, Doc: "How many of the best documents to keep. Defaults to all."},
	})
	chunkObject = newArguments("index.chunk", []Argument{
		{Name: "by", Type: typeString, Allowed: []string{"heading", "size"},
			Doc: "heading starts a passage at each heading. Defaults to heading."},
		{Name: "max_bytes", Type: typePositive, Doc: "The maximum size of a passage. Defaults to 2000."},
	})
)

// retrieve reads a search for documents.
func (w *walker) retrieve(n *yamlnode.Node) *Retrieve {
	fields := w.object(n, searchObject)
	if fields == nil {
		return nil
	}
	w.Text(fields["query"])
	r := &Retrieve{Pos: n.Pos, Query: w.value(fields["query"]), TopK: DefaultTopK, From: w.plain(fields["from"]),
		Filter: w.mapping(fields["filter"])}
	if k := w.Int(fields["top_k"], 1, 100); k != 0 {
		r.TopK = k
	}
	if by := w.object(fields["rerank"], rerankObject); by != nil {
		r.Rerank = &Rerank{By: w.plain(by["by"]), TopK: w.Int(by["top_k"], 1, 100)}
	}
	return r
}

// index reads what is put into an index.
func (w *walker) index(n *yamlnode.Node) *Index {
	fields := w.object(n, indexObject)
	if fields == nil {
		return nil
	}
	chunk := w.object(fields["chunk"], chunkObject)
	x := &Index{Pos: n.Pos, Into: w.plain(fields["into"]), Metadata: w.mapping(fields["metadata"]),
		BySize: w.word(chunk, chunkObject, "by") == "size", MaxBytes: w.positive(chunk["max_bytes"]),
		Stale: w.word(fields, indexObject, "stale") == "delete"}
	files, documents := fields["files"], fields["documents"]
	switch {
	case files != nil && documents != nil:
		w.Errorf(documents.Pos, diagnostics.CodeInvalidValue, "use two steps", "%q and %q exclude each other",
			"files", "documents")
	case files == nil && documents == nil:
		w.Errorf(n.Pos, diagnostics.CodeMissingKey, "", "a step of kind %q needs %q or %q", "index", "files",
			"documents")
	case documents != nil:
		x.Documents = w.itemsOf(documents)
		for _, item := range documents.Items {
			if !isTemplate(item) {
				w.arguments(item, documentObject, true)
			}
		}
	default:
		given := w.object(files, filesObject)
		x.Files = &IndexFiles{In: w.value(given["in"]), Match: w.value(given["match"])}
		if in := w.Text(given["in"]); in != "" && !isTemplate(given["in"]) && !fs.ValidPath(path.Clean(in)) {
			w.Errorf(given["in"].Pos, diagnostics.CodeInvalidValue, "a path such as docs/guide",
				"%q is not below the folder that the host lets recipes read", in)
		}
		if match := w.Text(given["match"]); match != "" && !isTemplate(given["match"]) {
			if _, err := path.Match(match, ""); err != nil {
				w.Errorf(given["match"].Pos, diagnostics.CodeInvalidValue, `\\[ stands for a [ of a name`,
					"%q is not a pattern of paths", match)
			}
		}
	}
	return x
}

// essence is what a digest has of a search; older recipes could not say all of it.
func (r *Retrieve) essence() []any {
	e := []any{r.Query.Decoded(), int64(r.TopK)}
	if r.From.Text != "" || r.Filter != nil || r.Rerank != nil {
		e = append(e, r.From.Text, r.Filter.Decoded())
	}
	if by := r.Rerank; by != nil {
		e = append(e, by.By.Text, int64(by.TopK))
	}
	return e
}

func (x *Index) essence() []any {
	e := []any{x.Into.Text, x.Documents.Decoded(), x.Metadata.Decoded(), x.BySize, int64(x.MaxBytes), x.Stale}
	if x.Files != nil {
		e = append(e, x.Files.In.Decoded(), x.Files.Match.Decoded())
	}
	return e
}
