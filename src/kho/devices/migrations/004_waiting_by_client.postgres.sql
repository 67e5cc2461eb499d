-- A board that waits has a row for each client id that its id was stated with: nobody who knows the id of a waiting board
-- can take its row, and with it the code that it shows. A tenant still knows a board once.
ALTER TABLE devices DROP CONSTRAINT devices_pkey;
ALTER TABLE devices ADD PRIMARY KEY (tenant, id, client);
CREATE UNIQUE INDEX devices_once ON devices (tenant, id) WHERE tenant <> '';
