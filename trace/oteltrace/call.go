package oteltrace

import (
	"cmp"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	api "go.opentelemetry.io/otel/trace"

	"github.com/braise-run/braise/trace"
)

// callEvent takes an event of the call of a model or a tool that a step makes.
func (r *run) callEvent(s *step, e trace.Event) {
	if e.Kind == trace.AdapterCall {
		if s.call != nil && s.call.retrying {
			s.call.retrying = false
			s.call.attempts++
			return
		}
		r.closeCall(s, e.At, nil)
		r.beginCall(s, e)
		return
	}
	c := s.call
	switch {
	case c == nil:
	case e.Kind == trace.AdapterFallback:
		fellBack(c.span, e)
		r.closeCall(s, e.At, &failure{code: unknownError})
	case e.Kind == trace.ModelEnd:
		r.answered(c, e)
		r.closeCall(s, e.At, nil)
	default:
		c.retrying = e.Kind == trace.AdapterRetry
		var attrs []attribute.KeyValue
		for _, n := range retryNames {
			switch v := e.Data.Get(n.key).(type) {
			case string:
				attrs = append(attrs, attribute.String(n.attribute, valid(v)))
			case int64:
				attrs = append(attrs, attribute.Int64(n.attribute, v))
			}
		}
		c.AddEvent(string(e.Kind), api.WithTimestamp(e.At), api.WithAttributes(attrs...))
	}
}

// fellBack adds to a span that another model is called instead.
func fellBack(span api.Span, e trace.Event) { fromTo(span, e, braiseFrom, braiseTo) }

// fromTo adds an event about two names, under these attributes.
func fromTo(span api.Span, e trace.Event, from, to string) {
	span.AddEvent(string(e.Kind), api.WithTimestamp(e.At), api.WithAttributes(
		attribute.String(from, valid(text(e, "from"))), attribute.String(to, valid(text(e, "to")))))
}

func (r *run) beginCall(s *step, e trace.Event) {
	name := text(e, "name")
	c := &call{kind: text(e, "kind"), attempts: 1}
	s.call = c
	switch c.kind {
	case kindRetriever:
		c.labels = []attribute.KeyValue{
			attribute.String(genAIOperation, opRetrieval),
			attribute.String(genAIProvider, unknownProvider),
		}
		c.span = r.open(s.ctx, opRetrieval, e.At, api.SpanKindClient, r.callAttributes(s, c))
		content, _ := e.Data.Get("content").(map[string]any)
		if query, ok := content["query"].(string); ok && len(query) > maxContent {
			r.show(c.span, e.At, genAIQuery, query) // which says that it is left out
		} else if ok && r.to.content {
			c.SetAttributes(attribute.String(genAIQuery, valid(query)))
		}
		return
	case kindTool:
		c.labels = []attribute.KeyValue{attribute.String(genAIOperation, opTool), attribute.String(genAITool, name)}
		c.span = r.open(s.ctx, opTool+" "+name, e.At, api.SpanKindInternal, r.callAttributes(s, c))
		r.show(c.span, e.At, genAIArguments, e.Data.Get("content"))
		return
	}
	model := cmp.Or(text(e, "model"), name)
	c.labels = []attribute.KeyValue{
		attribute.String(genAIOperation, opModel),
		attribute.String(genAIProvider, cmp.Or(text(e, "provider"), unknownProvider)),
		attribute.String(genAIRequestModel, model),
	}
	c.span = r.open(s.ctx, opModel+" "+model, e.At, api.SpanKindClient,
		append(r.callAttributes(s, c), attribute.String(braiseModel, name)))
	content, _ := e.Data.Get("content").(map[string]any)
	if messages, ok := content["messages"].([]any); ok {
		r.show(c.span, e.At, genAIInput, inputMessages(messages))
	}
	if tools, ok := content["tools"].([]any); ok {
		r.show(c.span, e.At, genAITools, toolDefinitions(tools))
	}
}

// callAttributes returns the attributes that a call's span begins with.
func (r *run) callAttributes(s *step, c *call) []attribute.KeyValue {
	own := []attribute.KeyValue{attribute.String(braiseRunID, r.id), attribute.String(braiseStep, s.path)}
	return append(own, c.labels...)
}

// answered adds what model.end says to the call's span, and counts the tokens.
func (r *run) answered(c *call, e trace.Event) {
	if model := text(e, "model"); model != "" {
		kv := attribute.String(genAIResponseModel, model)
		c.SetAttributes(kv)
		c.labels = append(c.labels, kv)
	}
	finish := text(e, "finish")
	if finish != "" {
		c.SetAttributes(attribute.StringSlice(genAIFinish, []string{finish}))
	}
	usage, _ := e.Data.Get("usage").(map[string]any)
	for _, t := range []struct{ key, kind, attribute string }{
		{"input_tokens", "input", genAIInputTokens}, {"output_tokens", "output", genAIOutputTokens},
	} {
		if n, _ := usage[t.key].(int64); n > 0 { // 0: the provider does not say
			c.SetAttributes(attribute.Int64(t.attribute, n))
			r.to.meters.tokens.Record(c.ctx, n, metric.WithAttributes(c.labels...),
				metric.WithAttributes(attribute.String(genAITokenType, t.kind)))
		}
	}
	for key, name := range map[string]string{"cached_tokens": genAICached, "cache_write_tokens": genAICacheWritten} {
		if n, _ := usage[key].(int64); n > 0 {
			c.SetAttributes(attribute.Int64(name, n))
		}
	}
	if content, ok := e.Data.Get("content").(map[string]any); ok {
		r.show(c.span, e.At, genAIOutput, outputMessages(content, finish))
	}
}

// closeCall ends the span of a step's call, if there is one.
func (r *run) closeCall(s *step, at time.Time, f *failure) {
	c := s.call
	if c == nil {
		return
	}
	s.call = nil
	if c.attempts > 1 {
		c.SetAttributes(attribute.Int(braiseAttempts, c.attempts))
	}
	seconds := r.to.meters.models
	if c.kind == kindTool {
		seconds = r.to.meters.tools
	}
	if f != nil {
		f = &failure{code: f.code, message: f.message} // the stack stays with the step
	}
	r.close(c.span, at, f, seconds, c.labels)
}
