package jsonl

import (
	"context"
	"fmt"
	"time"
)

// pollEvery is how often a Watch looks for what other processes have written.
const pollEvery = 500 * time.Millisecond

// Watch implements checkpoint.Watcher. What this store writes it tells at once; for what others write it looks at the
// times of all files twice a second.
func (s *Store) Watch(ctx context.Context, changed func(runID string)) error {
	var seen map[string][3]stamp // by run
	err := s.watchers.Watch(ctx, changed, pollEvery, func() []string {
		ids, err := s.runs(ctx)
		if err != nil {
			return []string{""} // who asks then is told why
		}
		var news []string
		now := make(map[string][3]stamp, len(ids))
		for _, id := range ids {
			files := [3]stamp{stampOf(s.journal(id)), stampOf(s.leaseFile(id)), stampOf(s.signalsFile(id))}
			was := seen[id]
			if now[id] = files; !files[0].same(was[0]) || !files[1].same(was[1]) || !files[2].same(was[2]) {
				news = append(news, id)
			}
		}
		seen = now
		return news
	})
	if err != nil {
		return fmt.Errorf("jsonl store: %w", err)
	}
	return nil
}
