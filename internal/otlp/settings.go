package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// settings are what the variables OTEL_EXPORTER_OTLP_* say of one signal, the endpoint aside.
type settings struct {
	headers map[string]string
	timeout time.Duration
	gzip    bool
	tls     *tls.Config // nil: the system's certificates
}

// environment reads the variables of a signal, "TRACES" or "METRICS". One of the signal goes before that of both:
// OTEL_EXPORTER_OTLP_TRACES_TIMEOUT before OTEL_EXPORTER_OTLP_TIMEOUT. An empty one is none. The error names the
// variable.
func environment(signal string) (settings, error) {
	s := settings{timeout: requestTime}
	if name, value := variable(signal, "HEADERS"); value != "" {
		headers, err := parseHeaders(value)
		if err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
		s.headers = headers
	}
	if name, value := variable(signal, "TIMEOUT"); value != "" {
		ms, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return s, fmt.Errorf("%s: %q is not a number of milliseconds", name, value)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	switch name, value := variable(signal, "COMPRESSION"); value {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return s, fmt.Errorf(`%s: %q is neither "gzip" nor "none"`, name, value)
	}
	var err error
	s.tls, err = certificates(signal)
	return s, err
}

// variable returns the name and the value of the variable that holds for a signal.
func variable(signal, key string) (name, value string) {
	name = "OTEL_EXPORTER_OTLP_" + signal + "_" + key
	if value = strings.TrimSpace(os.Getenv(name)); value != "" {
		return name, value
	}
	name = "OTEL_EXPORTER_OTLP_" + key
	return name, strings.TrimSpace(os.Getenv(name))
}

// parseHeaders reads "name=value,…", the values escaped as in a URL. The error holds no value.
func parseHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for i, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, escaped, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(escaped))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, fmt.Errorf("entry %d is not like name=value, with other characters as %%XX", i+1)
		}
		headers[name] = value
	}
	return headers, nil
}

// certificates reads the files of a collector's authorities and of the client's own certificate.
func certificates(signal string) (*tls.Config, error) {
	authorities, file := variable(signal, "CERTIFICATE")
	own, certificate := variable(signal, "CLIENT_CERTIFICATE")
	_, key := variable(signal, "CLIENT_KEY")
	if file == "" && certificate == "" {
		return nil, nil
	}
	config := &tls.Config{}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", authorities, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s holds no certificate in PEM", authorities, file)
		}
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", own, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
