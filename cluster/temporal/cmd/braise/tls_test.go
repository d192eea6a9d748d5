package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/runtime"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = about, nil
	a.pem, a.key = a.sign(about, nil)
	block, _ := pem.Decode(a.pem)
	var err error
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign makes a certificate and its key; by nil signs itself.
func (a *authority) sign(about *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, about, a.cert, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

// leaf is a certificate for this machine, of a server and of a client, with its key.
func (a *authority) leaf() (cert, key []byte) {
	a.t.Helper()
	about := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "127.0.0.1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	cert, own := a.sign(about, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// guarded is a proxy in front of a server, which wants TLS, a certificate of the authority if it is told so, and an API key;
// "": none.
func guarded(t *testing.T, addr string, a *authority, certs bool, apiKey string) (proxy string) {
	t.Helper()
	cert, key := a.leaf()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	var plain http.Protocols
	plain.SetUnencryptedHTTP2(true)
	// A response without a body is flushed once, when it ends: gRPC takes it for a status only then.
	to := &httputil.ReverseProxy{Transport: &http.Transport{Protocols: &plain},
		ErrorLog: log.New(io.Discard, "", 0),
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: addr}) }}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if apiKey != "" && r.Header.Get("Authorization") != "Bearer "+apiKey {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "16") // UNAUTHENTICATED
			return
		}
		to.ServeHTTP(w, r)
	}))
	s.EnableHTTP2, s.Config.ErrorLog = true, to.ErrorLog
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	if certs {
		s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// The connection to a server is secured by what the URL names, and refused without it.
func TestSecured(t *testing.T) {
	server, dir := servertest.Start(t), t.TempDir()
	ours, others := newAuthority(t), newAuthority(t)
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ca.pem", ours.pem)
	write("other.pem", others.pem)
	cert, key := ours.leaf()
	write("cert.pem", cert)
	write("key.pem", key)
	cert, key = others.leaf()
	write("other-cert.pem", cert)
	write("other-key.pem", key)
	write("none.pem", []byte("no certificate"))
	t.Setenv("RIGHT", "sesame")
	t.Setenv("WRONG", "simsim")
	byTLS, byCert, byKey := guarded(t, server.Addr, ours, false, ""), guarded(t, server.Addr, ours, true, ""),
		guarded(t, server.Addr, ours, false, "sesame")
	for _, tt := range []struct{ name, addr, options, code string }{
		{"TLS", byTLS, "tls_ca=ca.pem", ""},
		{"without TLS", byTLS, "queue=q", "cluster.unavailable"},
		{"an authority that the system does not know", byTLS, "tls=true", "cluster.unavailable"},
		{"another authority", byTLS, "tls_ca=other.pem", "cluster.unavailable"},
		{"no certificates in the file", byTLS, "tls_ca=none.pem", "cluster.key"},
		{"a client certificate", byCert, "tls_ca=ca.pem&tls_cert=cert.pem&tls_key=key.pem", ""},
		{"none", byCert, "tls_ca=ca.pem", "cluster.unavailable"},
		{"one of somebody else", byCert, "tls_ca=ca.pem&tls_cert=other-cert.pem&tls_key=other-key.pem", "cluster.unavailable"},
		{"the key of another certificate", byCert, "tls_ca=ca.pem&tls_cert=cert.pem&tls_key=other-key.pem", "cluster.key"},
		{"an API key", byKey, "tls_ca=ca.pem&api_key_env=RIGHT", ""},
		{"a wrong one", byKey, "tls_ca=ca.pem&api_key_env=WRONG", "cluster.unavailable"},
		{"no key", byKey, "tls_ca=ca.pem", "cluster.unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := url.Parse("temporal://" + tt.addr + "/default?" + tt.options)
			if err != nil {
				t.Fatal(err)
			}
			c, err := engine{}.Open(t.Context(), u, dir)
			if tt.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Notes(t.Context(), "nobody"); code(err) != "run.notFound" {
					t.Errorf("a request: %v", err)
				}
				return
			}
			if code(err) != tt.code {
				t.Errorf("%v, want %s", err, tt.code)
			}
		})
	}
}

func code(err error) string {
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		return e.Code
	}
	return ""
}
