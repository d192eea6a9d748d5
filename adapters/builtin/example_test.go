//go:build unix

package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/runtime"
)

func ExampleTools() {
	rt := runtime.Runtime{Tools: builtin.Tools(builtin.Options{
		Exec: &builtin.ExecOptions{Allow: []string{"git"}},
	})}
	for _, tool := range rt.Tools {
		fmt.Println(tool.Spec().Name)
	}
	_, err := rt.Tools[1].Call(context.Background(), json.RawMessage(`{"argv": ["rm", "-r", "/"]}`))
	fmt.Println(err)
	// Output:
	// http.request
	// exec.run
	// file.read
	// file.write
	// program "rm" is not allowed here, only ["git"] are
	//   hint: a host allows one by tools.exec.allow in braise.yaml
}

func ExampleHTTPRequest() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"title": "hello"}`)
	}))
	defer server.Close()

	tool := builtin.HTTPRequest(builtin.HTTPOptions{AllowPrivate: true})
	result, err := tool.Call(context.Background(), json.RawMessage(`{"url": "`+server.URL+`/tickets/1"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var out struct {
		Status int
		JSON   struct{ Title string }
	}
	fmt.Println(json.Unmarshal(result, &out), out.Status, out.JSON.Title)
	// Output: <nil> 200 hello
}

func ExampleExecRun() {
	tool := builtin.ExecRun(builtin.ExecOptions{Allow: []string{"cat"}})
	result, err := tool.Call(context.Background(), json.RawMessage(`{"argv": ["cat"], "stdin": "hello"}`))
	fmt.Println(string(result), err)
	// Output: {"code":0,"stdout":"hello","stderr":""} <nil>
}

func ExampleFileWrite() {
	base, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(base)

	opts := builtin.FileOptions{Base: base}
	fmt.Println(answer(builtin.FileWrite(opts), `{"path": "notes/today.txt", "content": "hello"}`))
	fmt.Println(answer(builtin.FileRead(opts), `{"path": "notes/today.txt"}`))
	fmt.Println(answer(builtin.FileRead(opts), `{"path": "../secret"}`))
	// Output:
	// {"bytes":5}
	// {"content":"hello"}
	// read "../secret": the path leaves the base folder
	//   hint: paths are relative to tools.file.base in braise.yaml
}

// answer is the result or the error of a call, as text.
func answer(tool runtime.Tool, args string) string {
	result, err := tool.Call(context.Background(), json.RawMessage(args))
	if err != nil {
		return err.Error()
	}
	return string(result)
}
