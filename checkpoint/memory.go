package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a Store in the memory of the process. Its zero value is ready.
type Memory struct {
	mu          sync.Mutex
	closed      bool
	runs        map[string]*memoryRun
	definitions map[string]json.RawMessage
	documents   map[string][]Document // by collection
	watchers    Watchers
}

type memoryRun struct {
	sum     Summary
	recs    []Record // never changed, only appended to
	lease   Lease
	signals []Signal
}

func (r *memoryRun) held() bool { return r.lease.Held(time.Now()) }

// lock begins a call: it locks m, unless the call cannot begin.
func (m *Memory) lock(ctx context.Context) error {
	m.mu.Lock()
	err := ctx.Err()
	if m.closed {
		err = ErrClosed
	}
	if err != nil {
		m.mu.Unlock()
		return fmt.Errorf("memory store: %w", err)
	}
	return nil
}

// leased returns the run that l holds.
func (m *Memory) leased(l Lease) (*memoryRun, error) {
	r := m.runs[l.RunID]
	switch {
	case r == nil:
		return nil, fmt.Errorf("run %q: %w", l.RunID, ErrNotFound)
	case !l.Newest(r.lease):
		return nil, l.Lost(r.lease)
	}
	return r, nil
}

// free returns a run that nobody holds.
func (m *Memory) free(runID string) (*memoryRun, error) {
	r := m.runs[runID]
	switch {
	case r == nil:
		return nil, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	case r.held():
		return nil, Busy(runID, r.lease.Owner)
	}
	return r, nil
}

// Cancellable implements Cancellable.
func (m *Memory) Cancellable() Store { return m }

// Create implements Store.
func (m *Memory) Create(ctx context.Context, run Run, owner string, ttl time.Duration, recs ...Record) (Lease, error) {
	if err := m.lock(ctx); err != nil {
		return Lease{}, err
	}
	defer m.mu.Unlock()
	sum, recs, err := Begin(run, recs)
	if err != nil {
		return Lease{}, err
	}
	if m.runs[run.ID] != nil {
		return Lease{}, fmt.Errorf("run %q: %w", run.ID, ErrExists)
	}
	if m.runs == nil {
		m.runs, m.definitions = map[string]*memoryRun{}, map[string]json.RawMessage{}
	}
	if run.Definition != nil && m.definitions[run.Digest] == nil {
		m.definitions[run.Digest] = bytes.Clone(run.Definition)
	}
	r := &memoryRun{sum: sum, recs: own(recs),
		lease: Lease{RunID: run.ID, Owner: owner, Epoch: 1, Until: time.Now().Add(ttl)}}
	m.runs[run.ID] = r
	m.watchers.Tell(run.ID)
	return r.lease, nil
}

// own gives records data that callers cannot change.
func own(recs []Record) []Record {
	for i := range recs {
		recs[i].Data = bytes.Clone(recs[i].Data)
	}
	return recs
}

// Claim implements Store.
func (m *Memory) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (Lease, error) {
	if err := m.lock(ctx); err != nil {
		return Lease{}, err
	}
	defer m.mu.Unlock()
	r, err := m.free(runID)
	if err != nil {
		return Lease{}, err
	}
	r.lease = Lease{RunID: runID, Owner: owner, Epoch: r.lease.Epoch + 1, Until: time.Now().Add(ttl)}
	return r.lease, nil
}

// Renew implements Store.
func (m *Memory) Renew(ctx context.Context, l Lease, ttl time.Duration) (Lease, error) {
	if err := m.lock(ctx); err != nil {
		return Lease{}, err
	}
	defer m.mu.Unlock()
	r, err := m.leased(l)
	if err != nil {
		return Lease{}, err
	}
	r.lease.Until = time.Now().Add(ttl)
	return r.lease, nil
}

// Release implements Store.
func (m *Memory) Release(ctx context.Context, l Lease) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	r, err := m.leased(l)
	if err != nil {
		return err
	}
	r.lease = Lease{RunID: l.RunID, Epoch: l.Epoch + 1}
	m.watchers.Tell(l.RunID)
	return nil
}

// Append implements Store.
func (m *Memory) Append(ctx context.Context, l Lease, after int64, recs ...Record) error {
	return m.append(ctx, l, func(s Summary) (Summary, []Record, error) { return s.Next(after, recs) })
}

// AnswerPause implements Store.
func (m *Memory) AnswerPause(ctx context.Context, l Lease, after int64, tokenHash []byte, recs ...Record) error {
	return m.append(ctx, l, func(s Summary) (Summary, []Record, error) { return s.Answer(after, tokenHash, recs) })
}

func (m *Memory) append(ctx context.Context, l Lease, next func(Summary) (Summary, []Record, error)) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	r, err := m.leased(l)
	if err != nil {
		return err
	}
	sum, recs, err := next(r.sum)
	if err != nil {
		return err
	}
	r.sum, r.recs = sum, append(r.recs, own(recs)...)
	m.watchers.Tell(l.RunID)
	return nil
}

// FindPause implements Store.
func (m *Memory) FindPause(ctx context.Context, runID string, tokenHash []byte) (PauseInfo, error) {
	if err := m.lock(ctx); err != nil {
		return PauseInfo{}, err
	}
	defer m.mu.Unlock()
	if r := m.runs[runID]; r != nil {
		if p, ok := r.sum.Unanswered(r.open()).Find(tokenHash, time.Now()); ok {
			return PauseInfo{r.summary(), p, r.recs[p.Seq-1]}, nil
		}
	}
	return PauseInfo{}, fmt.Errorf("run %q: %w", runID, ErrToken)
}

func (r *memoryRun) summary() Summary {
	s := r.sum
	s.Held = r.held()
	return s
}

// Load implements Store. The records share their data with the store; callers must not change it.
func (m *Memory) Load(ctx context.Context, runID string, after int64) (Summary, []Record, error) {
	if err := m.lock(ctx); err != nil {
		return Summary{}, nil, err
	}
	defer m.mu.Unlock()
	r := m.runs[runID]
	if r == nil {
		return Summary{}, nil, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	from := min(max(after, 0), int64(len(r.recs)))
	return r.summary(), slices.Clone(r.recs[from:]), nil
}

// Definition implements Store.
func (m *Memory) Definition(ctx context.Context, digest string) (json.RawMessage, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	d := m.definitions[digest]
	if d == nil {
		return nil, fmt.Errorf("definition %q: %w", digest, ErrNotFound)
	}
	return bytes.Clone(d), nil
}

// List implements Store.
func (m *Memory) List(ctx context.Context, f Filter) ([]Summary, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var all []Summary
	for _, r := range m.runs {
		if sum := r.summary(); f.Match(sum, r.open()...) {
			all = append(all, sum)
		}
	}
	slices.SortFunc(all, f.Compare)
	if f.Limit > 0 {
		all = all[:min(f.Limit, len(all))]
	}
	return all, nil
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, runID string) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if _, err := m.free(runID); err != nil {
		return err
	}
	delete(m.runs, runID)
	return nil
}

// Prune implements Store.
func (m *Memory) Prune(ctx context.Context, before time.Time, statuses ...Status) (int, error) {
	if err := m.lock(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	n, used := 0, map[string]bool{}
	for id, r := range m.runs {
		if r.sum.Prunable(before, statuses) && !r.held() {
			delete(m.runs, id)
			n++
		} else {
			used[r.sum.Digest] = true
		}
	}
	for digest := range m.definitions {
		if !used[digest] {
			delete(m.definitions, digest)
		}
	}
	return n, nil
}

// PutDocument implements Documents.
func (m *Memory) PutDocument(ctx context.Context, collection string, d Document) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := d.Check(collection); err != nil {
		return err
	}
	m.put(collection, d)
	return nil
}

// put keeps a document.
func (m *Memory) put(collection string, d Document) {
	if i := m.indexOf(collection, d.Name); i >= 0 {
		m.documents[collection][i] = d
		return
	}
	if m.documents == nil {
		m.documents = map[string][]Document{}
	}
	m.documents[collection] = append(m.documents[collection], d)
}

// indexOf returns the index of a document in its collection, or -1.
func (m *Memory) indexOf(collection, name string) int {
	return slices.IndexFunc(m.documents[collection], func(d Document) bool { return d.Name == name })
}

// Document implements Documents.
func (m *Memory) Document(ctx context.Context, collection, name string) (string, bool, error) {
	if err := m.lock(ctx); err != nil {
		return "", false, err
	}
	defer m.mu.Unlock()
	if err := (Document{Name: name}).Check(collection); err != nil {
		return "", false, err
	}
	if i := m.indexOf(collection, name); i >= 0 {
		return m.documents[collection][i].Text, true, nil
	}
	return "", false, nil
}

// SwapDocument implements Documents.
func (m *Memory) SwapDocument(ctx context.Context, collection, name string, old, text *string) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	d := Document{Name: name}
	if text != nil {
		d.Text = *text
	}
	if err := d.Check(collection); err != nil {
		return err
	}
	var now *string
	i := m.indexOf(collection, name)
	if i >= 0 {
		now = &m.documents[collection][i].Text
	}
	if err := d.CheckSwap(now, old); err != nil {
		return err
	}
	switch {
	case text != nil:
		m.put(collection, d)
	case i < 0:
	case len(m.documents[collection]) == 1:
		delete(m.documents, collection)
	default:
		m.documents[collection] = slices.Delete(m.documents[collection], i, i+1)
	}
	return nil
}

// Documents implements Documents.
func (m *Memory) Documents(ctx context.Context, collection string) ([]Document, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return slices.Clone(m.documents[collection]), CheckCollection(collection)
}

// Collections implements Collections.
func (m *Memory) Collections(ctx context.Context, prefix string) ([]string, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var names []string
	for name := range m.documents {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// DeleteDocuments implements Documents.
func (m *Memory) DeleteDocuments(ctx context.Context, collection string) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	delete(m.documents, collection)
	return CheckCollection(collection)
}

// Close implements Store: it forgets everything.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers.Close()
	m.closed, m.runs, m.definitions, m.documents = true, nil, nil, nil
	return nil
}
