package host

import (
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/trace/oteltrace"
)

// Telemetry returns a new exporter to the collector that the configuration names, to be added to
// the Trace of a Runtime; nil when it names none. The caller of Telemetry calls the exporter's
// Shutdown once the last run has ended. version is that of the program, for the attribute
// service.version; it may be "".
func (c *Config) Telemetry(version string) (*oteltrace.Exporter, error) {
	if c == nil || c.OTLP == nil {
		return nil, nil
	}
	opts := *c.OTLP
	opts.Version = version
	return oteltrace.OTLP(opts)
}

func (r *reader) telemetry(n *yamlnode.Node) *oteltrace.OTLPOptions {
	fields := r.Object(n, []string{"otlp", "content", "headers", "service_name"}, nil)
	if fields == nil {
		return nil
	}
	r.Require(n, fields, "otlp")
	opts := oteltrace.OTLPOptions{
		Endpoint: r.otlp(fields["otlp"], func(o *oteltrace.OTLPOptions, s string) { o.Endpoint = s }),
		Content:  r.Bool(fields["content"]),
		Service:  r.text(fields["service_name"]),
	}
	for _, f := range r.Map(fields["headers"]) {
		if credential.MatchString(f.Key) {
			r.secret(f.Value)
		}
		set := func(o *oteltrace.OTLPOptions, s string) { o.Headers = map[string]string{f.Key: s} }
		value := ""
		if r.sendable(f.Value) {
			value = r.otlp(f.Value, set)
		}
		if opts.Headers == nil {
			opts.Headers = map[string]string{}
		}
		opts.Headers[f.Key] = value
	}
	return &opts
}

// otlp reads an option that oteltrace has an opinion about, without white space around it, see option.
func (r *reader) otlp(n *yamlnode.Node, set func(*oteltrace.OTLPOptions, string)) string {
	return read(r, n, func(r *yamlnode.Reader, n *yamlnode.Node) string {
		text := strings.TrimSpace(r.Text(n))
		if text == "" {
			return ""
		}
		opts := oteltrace.OTLPOptions{Endpoint: "http://any"}
		set(&opts, text)
		if err := opts.Validate(); err != nil {
			r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%s", strings.TrimPrefix(err.Error(), "otlp: "))
		}
		return text
	})
}
