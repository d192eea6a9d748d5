package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/braise-run/braise/cluster/temporal"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/command"
	"github.com/braise-run/braise/runtime"
)

// engine is the engine for URLs such as temporal://HOST:PORT/NAMESPACE?queue=NAME.
type engine struct{}

func (engine) Scheme() string { return "temporal" }

// options are what may follow the ? of a URL.
var options = []string{"queue", "calls", "local_reads", "tls", "tls_ca", "tls_cert", "tls_key", "api_key_env",
	"codec_key_env", "token_key_env"}

// usualPort is the port of a URL without one.
const usualPort = "7233"

// openTime is how long a server may take to answer first.
const openTime = 10 * time.Second

// place is a URL, read.
type place struct {
	addr, namespace, queue string
	client                 client.Options
	tokenKey               []byte            // nil: no tokens
	calls                  map[string]string // queues of tools and models; nil: all calls are in the queue
	reads                  bool              // calls that only read stay with the worker that drives the run
}

// Open connects to a server, and finds out whether the namespace is there.
func (engine) Open(ctx context.Context, u *url.URL, dir string) (command.Cluster, error) {
	p, err := read(u, dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	c, err := client.DialContext(ctx, p.client)
	if err != nil {
		return nil, &runtime.Error{Category: runtime.CategoryInfra, Code: "cluster.unavailable",
			Err: fmt.Errorf("the Temporal server at %s cannot be reached: %w", p.addr, err)}
	}
	e := &temporal.Engine{Client: c, TaskQueue: p.queue, TokenKey: p.tokenKey, DataConverter: p.client.DataConverter}
	if err := e.Check(ctx, p.namespace); err != nil {
		c.Close()
		return nil, err
	}
	return &cluster{engine: e, client: c, conf: p.client, calls: p.calls, reads: p.reads}, nil
}

// read reads a URL. What is wrong with it is a command.BadURL; a file or a variable that cannot be used is another error.
func read(u *url.URL, dir string) (*place, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, command.BadURL("what follows ? in the URL cannot be read: " + err.Error())
	}
	for name, values := range q {
		if !slices.Contains(options, name) {
			return nil, command.BadURL(fmt.Sprintf("unknown option %q in the URL\n  hint: %s", name,
				diagnostics.DidYouMean(name, options)))
		}
		if len(values) > 1 || values[0] == "" {
			return nil, command.BadURL(fmt.Sprintf("option %q in the URL has one value", name))
		}
	}
	p := &place{addr: u.Host, namespace: strings.Trim(u.Path, "/"), queue: q.Get("queue")}
	switch {
	case u.Hostname() == "" || u.Fragment != "" || strings.Contains(p.namespace, "/"):
		return nil, command.BadURL("the URL is not temporal://HOST:PORT/NAMESPACE?queue=NAME")
	case u.Port() == "":
		p.addr = net.JoinHostPort(u.Hostname(), usualPort)
	}
	if p.namespace == "" {
		p.namespace = client.DefaultNamespace
	}
	p.client = client.Options{HostPort: p.addr, Namespace: p.namespace,
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	if err := p.readCalls(q); err != nil {
		return nil, err
	}
	if err := p.readKeys(q); err != nil {
		return nil, err
	}
	p.client.ConnectionOptions.TLS, err = readTLS(q, dir)
	return p, err
}

// readCalls reads where calls are made.
func (p *place) readCalls(q url.Values) error {
	switch reads := q.Get("local_reads"); reads {
	case "true", "":
		p.reads = reads != ""
	default:
		return command.BadURL("option \"local_reads\" in the URL is true, or not there")
	}
	if q.Get("calls") == "" {
		return nil
	}
	p.calls = map[string]string{}
	for _, pair := range strings.Split(q.Get("calls"), ",") {
		name, queue, _ := strings.Cut(pair, ":")
		if _, twice := p.calls[name]; name == "" || queue == "" || twice {
			return command.BadURL("option \"calls\" in the URL is TOOL:QUEUE, or several with commas between them, each tool or " +
				"model once")
		}
		p.calls[name] = queue
	}
	return nil
}

// readKeys reads the keys that variables hold.
func (p *place) readKeys(q url.Values) error {
	if name := q.Get("api_key_env"); name != "" {
		key, err := variable(name)
		if err != nil {
			return err
		}
		p.client.Credentials = client.NewAPIKeyStaticCredentials(key)
	}
	var codecKeys [][]byte
	for name, keys := range map[string]*[][]byte{"codec_key_env": &codecKeys, "token_key_env": nil} {
		if q.Get(name) == "" {
			continue
		}
		text, err := variable(q.Get(name))
		if err != nil {
			return err
		}
		read, err := temporal.ParseKeys(text)
		switch {
		case err != nil:
			return fmt.Errorf("environment variable %s: %w", q.Get(name), err)
		case keys != nil:
			*keys = read
		default:
			p.tokenKey = read[0]
		}
	}
	codec, err := temporal.NewCodec(codecKeys...)
	if err != nil {
		return err
	}
	p.client = codec.Options(p.client)
	return nil
}

// variable returns what an environment variable holds.
func variable(name string) (string, error) {
	text, ok := os.LookupEnv(name)
	if !ok || text == "" {
		return "", &runtime.Error{Category: runtime.CategoryConfig, Code: "cluster.key",
			Err: fmt.Errorf("environment variable %s is not set, which the URL of the engine names", name)}
	}
	return text, nil
}

// readTLS reads how the connection is secured; nil: it is not.
func readTLS(q url.Values, dir string) (*tls.Config, error) {
	cert, key := q.Get("tls_cert"), q.Get("tls_key")
	switch on := q.Get("tls"); {
	case on != "" && on != "true":
		return nil, command.BadURL("option \"tls\" in the URL is true, or not there")
	case (cert == "") != (key == ""):
		return nil, command.BadURL("a client certificate needs both tls_cert and tls_key")
	case on == "" && cert == "" && q.Get("tls_ca") == "" && q.Get("api_key_env") == "":
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	within := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(within(cert), within(key))
		if err != nil {
			return nil, badFile(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if ca := q.Get("tls_ca"); ca != "" {
		text, err := os.ReadFile(within(ca))
		if err != nil {
			return nil, badFile(err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, badFile(errors.New(ca + " has no certificate in PEM"))
		}
	}
	return c, nil
}

func badFile(err error) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "cluster.key", Err: fmt.Errorf("TLS: %w", err)}
}
