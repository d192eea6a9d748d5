package endpoint

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// Lines are the same however the bytes come, and whatever fits into the reader's buffer.
func TestLines(t *testing.T) {
	long := strings.Repeat("0123456789", 5)
	for _, tt := range []struct {
		in   string
		want []string // the last one has no end
	}{
		{"", []string{""}},
		{"a", []string{"a"}},
		{"a\n", []string{"a", ""}},
		{"a\r\nb\rc\n\nd", []string{"a", "b", "c", "", "d"}},
		{"\r\n\r\n\n\r", []string{"", "", "", "", ""}},
		{"\r\r\n", []string{"", "", ""}},
		{long + "\r\n" + long + "\n" + long, []string{long, long, long}},
		{"0123456789abcde\r\n0123456789abcdef\n", []string{"0123456789abcde", "0123456789abcdef", ""}},
	} {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(tt.in),
			"byte by byte": iotest.OneByteReader(strings.NewReader(tt.in))} {
			r := events{in: bufio.NewReaderSize(in, 16), max: int64(len(long))}
			var got []string
			for {
				line, err := r.line()
				if got = append(got, string(line)); err == io.EOF {
					break
				}
				if err != nil || len(got) > 10 {
					t.Fatalf("%q, %s: %q, %v", tt.in, name, got, err)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, %s: %q, want %q", tt.in, name, got, tt.want)
			}
		}
	}
	r := events{in: bufio.NewReaderSize(strings.NewReader(long+"x\n"), 16), max: int64(len(long))}
	if _, err := r.line(); !errors.Is(err, errTooLarge) {
		t.Errorf("a line of one byte more than there may be: %v", err)
	}
}

// A line that ends in a carriage return is there before anything follows.
func TestLineDoesNotWait(t *testing.T) {
	in, out := io.Pipe()
	r := events{in: bufio.NewReader(in), max: 10}
	go out.Write([]byte("a\r"))
	if line, err := r.line(); string(line) != "a" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	go func() {
		out.Write([]byte("\nb\n"))
		out.Close()
	}()
	if line, err := r.line(); string(line) != "b" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
}
