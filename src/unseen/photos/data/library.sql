-- Tables of a photo library; see unseen/photos/storage.py.
BEGIN;
CREATE TABLE settings (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE roots (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, beside TEXT);
CREATE TABLE images (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, row INTEGER NOT NULL UNIQUE,
    width INTEGER, height INTEGER, taken TEXT, note TEXT);
CREATE TABLE files (id INTEGER PRIMARY KEY, root INTEGER NOT NULL REFERENCES roots, path TEXT NOT NULL,
    size INTEGER, changed INTEGER, image INTEGER REFERENCES images, problem TEXT, UNIQUE (root, path));
CREATE TABLE dead_rows (row INTEGER PRIMARY KEY);
CREATE TABLE corrections (digest BLOB NOT NULL, key TEXT NOT NULL, word TEXT NOT NULL, verdict INTEGER NOT NULL,
    time TEXT NOT NULL, PRIMARY KEY (digest, key)) WITHOUT ROWID;
CREATE INDEX corrections_by_key ON corrections (key);
CREATE INDEX files_by_image ON files (image);
CREATE INDEX images_by_date ON images (taken, row);
COMMIT;
