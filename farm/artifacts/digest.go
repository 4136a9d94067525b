package artifacts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A storedDigest is the state of the digest of the first chunks of a file.
type storedDigest struct {
	Tokens []string `json:"chunks"`
	State  []byte   `json:"sha256"` // of crypto/sha256
}

func (p *progress) resetDigest() { p.digest, p.hashed, p.saved = sha256.New(), 0, 0 }

// saveDigest stores the digest of the first chunks of an incomplete file, unless it is stored.
func (u *Upload) saveDigest(ctx context.Context, p *progress) error {
	if p.sealed || p.hashed == p.saved {
		return nil
	}
	state, err := p.digest.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return fmt.Errorf("encode a digest: %w", err)
	}
	text, err := json.Marshal(storedDigest{p.tokens[:p.hashed], state})
	if err != nil {
		return fmt.Errorf("encode a digest: %w", err)
	}
	key := u.folder + "/" + digestName(p.ID.String(), p.attempt, p.hashed)
	if err := u.store.Put(ctx, key, int64(len(text)), bytes.NewReader(text)); err != nil && !errors.Is(err, ErrExists) {
		return storeError(err)
	}
	p.saved = p.hashed
	return nil
}

// loadDigests reads the stored digest of most chunks of each incomplete file.
func (u *Upload) loadDigests(ctx context.Context, files map[string]*progress, objects []Object) error {
	most := map[*progress]int64{}
	for _, o := range objects {
		name := parseName(o.Name)
		p := files[name.artifact]
		if name.kind == digestObject && p != nil && !p.sealed && name.attempt == p.attempt && name.chunk < p.Chunks() {
			most[p] = max(most[p], name.chunk)
		}
	}
	for p, n := range most {
		if err := u.loadDigest(ctx, p, n); err != nil {
			return err
		}
	}
	return nil
}

// loadDigest reads the digest of the first n chunks of a file. It is not used if it is of other
// copies of the chunks.
func (u *Upload) loadDigest(ctx context.Context, p *progress, n int64) error {
	r, err := u.store.Open(ctx, u.folder+"/"+digestName(p.ID.String(), p.attempt, n), 0)
	if errors.Is(err, ErrMissing) { // it was swept meanwhile
		return nil
	}
	if err != nil {
		return storeError(err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSeal))
	if err := errors.Join(err, r.Close()); err != nil {
		return storeError(err)
	}
	var d storedDigest
	digest := sha256.New()
	if json.Unmarshal(text, &d) != nil || !slices.Equal(d.Tokens, p.tokens[:n]) ||
		digest.(encoding.BinaryUnmarshaler).UnmarshalBinary(d.State) != nil {
		return nil
	}
	p.digest, p.hashed, p.saved = digest, n, n
	return nil
}
