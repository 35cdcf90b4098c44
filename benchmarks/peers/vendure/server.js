// Vendure with its defaults, without a worker: stock isn't tracked, and a payment that always succeeds settles an order.
// `node server.js DATABASE_URL DIRECTORY PRODUCTS` fills an empty database and says where it listens.

// It would report what runs here to its makers.
process.env.VENDURE_DISABLE_TELEMETRY = 'true';

const fs = require('node:fs');
const path = require('node:path');
const { bootstrap, DefaultJobQueuePlugin, DefaultLogger, dummyPaymentHandler, LogLevel } = require('@vendure/core');
const { populate } = require('@vendure/core/cli');

const [url, directory, products] = process.argv.slice(2);

const database = url.startsWith('postgresql:')
  ? { type: 'postgres', host: url.split('host=')[1], username: 'postgres', database: 'postgres' }
  : { type: 'better-sqlite3', database: path.join(directory, 'vendure.db'), prepareDatabase: (db) => {
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = FULL');
    } };

const config = {
  apiOptions: { port: Number(process.env.PORT), hostname: '127.0.0.1', adminApiPath: 'admin-api', shopApiPath: 'shop-api' },
  authOptions: {
    tokenMethod: 'bearer',
    superadminCredentials: { identifier: 'bench', password: 'bench' },
    requireVerification: false,
  },
  dbConnectionOptions: { ...database, synchronize: true, logging: false },
  paymentOptions: { paymentMethodHandlers: [dummyPaymentHandler] },
  importExportOptions: { importAssetsDir: directory },
  logger: new DefaultLogger({ level: LogLevel.Error }),
  plugins: [],
};

const initialData = {
  defaultLanguage: 'en',
  defaultZone: 'Americas',
  countries: [{ name: 'United States', code: 'US', zone: 'Americas' }],
  taxRates: [{ name: 'Standard', percentage: 0 }],
  shippingMethods: [{ name: 'Pickup', price: 0 }],
  paymentMethods: [{ name: 'Card', handler: { code: 'dummy-payment-handler', arguments: [{ name: 'automaticSettle', value: 'true' }] } }],
  collections: [],
};

async function main() {
  const marker = path.join(directory, 'filled');
  if (!fs.existsSync(marker)) {
    const app = await populate(() => bootstrap(config), initialData, products);
    await app.close();
    fs.writeFileSync(marker, '');
  }
  await bootstrap(config);
  console.log(`listening on http://127.0.0.1:${process.env.PORT}`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
